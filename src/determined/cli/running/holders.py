"""Find out whether a process runs an experiment, as far as that is known on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from determined.store.states import EXPERIMENT_RUNNING

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.store import Store


def is_abandoned(row: Experiment) -> bool:
    """Return whether an experiment should be running, but its process has exited.

    Processes on other machines cannot be checked, so they are assumed to run.
    """
    from determined.store.process import is_running, on_this_machine

    if row.by_hand or row.state not in EXPERIMENT_RUNNING:
        return False
    if row.holder is None:
        return True
    process = row.holder.process
    return on_this_machine(process) and not is_running(process)


def advice(store: Store, rows: Iterable[Experiment]) -> list[str]:
    """Return one line of advice for each experiment that no process runs and that no queue will start."""
    abandoned = [row for row in rows if is_abandoned(row)]
    if not abandoned:
        return []
    from determined.queue import liveness
    from determined.store.open import checked_place

    place = checked_place()
    left = [row for row in abandoned if not liveness.is_attended(store, place, row)]
    return [liveness.how_to_go_on(store, row.id) for row in left]


def is_at_work(store: Store, row: Experiment) -> bool:
    """Return whether the trials of an experiment run, or will run without further commands."""
    return row.state in EXPERIMENT_RUNNING and not advice(store, [row])


def how_to_go_on(experiment_id: int) -> str:
    """Return the message for an experiment that no process runs."""
    return f"no process is running experiment {experiment_id}; resume with: det experiment activate {experiment_id}"
