"""Obtain slots for an experiment: reserve them, share them, or leave the experiment to the queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json

if TYPE_CHECKING:
    from determined.engines.local import LocalEngine
    from determined.store.store import Store

Sharing = Literal["wait", "fail", "share"]


def with_sharing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --no-wait and --share to a command, as the argument `sharing`."""

    @click.option("--no-wait", is_flag=True, help="Fail if other experiments hold the slots, instead of waiting.")
    @click.option("--share", is_flag=True, help="Use slots that other experiments hold.")
    @wraps(command)
    def chosen(*args: Any, no_wait: bool, share: bool, **kwargs: Any) -> Any:
        if no_wait and share:
            raise click.UsageError("--no-wait and --share exclude each other")
        return command(*args, sharing="fail" if no_wait else "share" if share else "wait", **kwargs)

    return chosen


def reserve_slots(
    engine: LocalEngine,
    config: dict[str, Any],
    experiment_id: int | None,
    sharing: Sharing,
    say: Callable[[str], None],
) -> None:
    """Reserve as many slots as the experiment can use; the engine starts no trial before it has them.

    With "fail", EngineError is raised if they are not available now. `experiment_id` is None for an experiment that is
    not created yet.
    """
    from determined.config.stored import StoredConfig
    from determined.engines.reservations import Holder
    from determined.errors import EngineError
    from determined.queue.slot_demand import slot_demand_of
    from determined.store.databases.location import shown
    from determined.store.open import checked_place
    from determined.store.process import this_process

    if sharing == "share":
        return

    def say_waiting(missing: str) -> None:
        if sharing == "wait":
            say(f"Waiting for {missing}. --share does not wait; Ctrl-C pauses the experiment.")

    holder = Holder(experiment_id, shown(checked_place()), this_process().pid)
    wanted = slot_demand_of(StoredConfig(config), engine.slots).wants
    try:
        reservation = engine.reserve(wanted, holder, say_waiting)
    except OSError as error:
        say(f"WARNING: slots are not reserved, and other experiments may use them as well: {error}")
        return
    if sharing == "fail" and not engine.has_slots:
        raise EngineError(f"missing {reservation.missing(wanted)}; without --no-wait the experiment waits for them")


def enqueue(
    store: Store, experiment_id: int, form: Form, *, slots: int | None = None, max_trials: int | None = None
) -> None:
    """Queue an experiment; it runs in the background, independent of this terminal, when slots are free."""
    from determined.queue.daemon import SHUTTING_DOWN
    from determined.queue.submission import add
    from determined.store.open import checked_place

    daemon = add(store, checked_place(), experiment_id, slots=slots, max_trials=max_trials)
    if form == "json":
        print_json(experiment_plain(store.experiments.get(experiment_id)))
    if daemon == "shutting down":
        click.echo(f"Experiment {experiment_id} is in the queue, but {SHUTTING_DOWN}", err=True)
    elif form != "json":
        click.echo(f"Queued. Status: det queue. Logs: det experiment logs {experiment_id} -f")
