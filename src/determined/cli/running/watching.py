"""Watch experiments: whether a process runs them, and commands that Ctrl-C ends without affecting the experiment."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

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


def resume_hints(store: Store, rows: Iterable[Experiment]) -> list[str]:
    """Return one line of advice for each experiment that no process runs and that no queue will start."""
    abandoned = [row for row in rows if is_abandoned(row)]
    if not abandoned:
        return []
    from determined.queue import liveness
    from determined.store.open import checked_place

    place = checked_place()
    left = [row for row in abandoned if not liveness.is_running_or_queued(store, place, row)]
    return [liveness.resume_hint(store, row.id) for row in left]


def is_in_progress(store: Store, row: Experiment) -> bool:
    """Return whether the trials of an experiment run, or will run without further commands."""
    return row.state in EXPERIMENT_RUNNING and not resume_hints(store, [row])


def interrupted_message(experiment_id: int) -> str:
    """Return the message for an experiment that no process runs."""
    return f"no process is running experiment {experiment_id}; resume with: det experiment activate {experiment_id}"


@contextmanager
def ctrl_c_ends_watching(what: str) -> Iterator[None]:
    """On Ctrl-C, print one line and end the command with code 130: with 0, `wait && ...` would continue."""
    try:
        yield
    except KeyboardInterrupt:
        after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has already printed ^C on this line
        click.echo(f"{after_echo}Stopped watching; {what} is not affected", err=True)
        raise
