"""Reserve slots that other experiments of the user may hold: wait for them, fail, or share them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from determined.engines.local import LocalEngine

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
    from determined.queue.slot_demand import needs_of
    from determined.store.databases.location import shown
    from determined.store.open import checked_place
    from determined.store.process import this_process

    if sharing == "share":
        return

    def say_waiting(missing: str) -> None:
        if sharing == "wait":
            say(f"Waiting for {missing}. --share does not wait; Ctrl-C pauses the experiment.")

    holder = Holder(experiment_id, shown(checked_place()), this_process().pid)
    wanted = needs_of(StoredConfig(config), engine.slots).wants
    try:
        reservation = engine.reserve(wanted, holder, say_waiting)
    except OSError as error:
        say(f"WARNING: slots are not reserved, and other experiments may use them as well: {error}")
        return
    if sharing == "fail" and not engine.has_slots:
        raise EngineError(f"missing {reservation.missing(wanted)}; without --no-wait the experiment waits for them")
