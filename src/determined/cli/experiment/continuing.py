"""`det experiment continue`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.experiment.wait import ENDED
from determined.cli.foreground import run_here
from determined.cli.groups import Command
from determined.cli.opened import opened_store
from determined.cli.output import Form, with_json
from determined.cli.watching import flat
from determined.cli.zone import with_utc
from determined.errors import DeterminedError

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment

_OTHER_CHANGES = (
    "to change anything else, create another experiment that begins with a checkpoint of this one: "
    "det experiment create CONFIG --config searcher.source_checkpoint_uuid=UUID"
)


@click.command("continue", cls=Command)
@click.argument("experiment_id", metavar="ID", type=int)
@click.option("--config-file", type=click.Path(path_type=Path), help="A file with searcher.max_trials in it.")
@click.option("--config", "overrides", metavar="KEY=VALUE", multiple=True, help="searcher.max_trials=N extends it.")
@click.option("--slots", type=click.IntRange(min=1), help="Use so many slots; without it all of this machine.")
@click.option("-f", "--follow", "--follow-first-trial", "follow", is_flag=True, help="Also show the first trial's log.")
@with_utc
@with_json
def continue_(
    experiment_id: int,
    config_file: Path | None,
    overrides: tuple[str, ...],
    slots: int | None,
    follow: bool,
    form: Form,
) -> None:
    """Continue an experiment, or extend an ended one.

    One that was paused or interrupted goes on where it was, as with `activate`. One that has ended gets more trials
    with searcher.max_trials; nothing else can be changed.

    \b
    Example: det experiment continue 3 --config searcher.max_trials=32
    """
    max_trials = _max_trials(config_file, overrides)
    with opened_store() as store:
        row = store.experiments.get(experiment_id)
    if row.state in ENDED and not row.by_hand and max_trials is None:
        raise DeterminedError(_how_to_extend(row))
    sys.exit(run_here(experiment_id, new=False, slots=slots, follow=follow, form=form, max_trials=max_trials))


def _max_trials(config_file: Path | None, overrides: tuple[str, ...]) -> int | None:
    if config_file is None and not overrides:
        return None
    from determined.config.load import load_yaml
    from determined.config.overrides import apply_overrides

    changes, _ = apply_overrides({} if config_file is None else load_yaml(config_file), overrides)
    given: dict[str, Any] = dict(flat(changes))
    max_trials = given.pop("searcher.max_trials", None)
    if given:
        raise click.UsageError(f"only searcher.max_trials can be changed, not {', '.join(given)}; {_OTHER_CHANGES}")
    if isinstance(max_trials, bool) or not isinstance(max_trials, int) or max_trials < 1:
        raise click.UsageError(f"searcher.max_trials: expected a whole number from 1 on, got {max_trials!r}")
    return max_trials


def _how_to_extend(row: Experiment) -> str:
    searcher = row.config.get("searcher") or {}
    more = "" if searcher.get("max_trials") is None else f", more than {searcher['max_trials']}"
    extend = f"extend it with --config searcher.max_trials=N{more}; "
    can_grow = searcher.get("name") not in ("single", "grid")
    return f"experiment {row.id} has ended: it is {row.state}; {extend if can_grow else ''}{_OTHER_CHANGES}"
