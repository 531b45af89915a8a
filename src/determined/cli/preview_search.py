"""The command `det preview-search`, and previews of searches as text and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible_lines
from determined.cli.display.table import Column, Row, number, table
from determined.cli.experiment.new.overrides import with_overrides
from determined.cli.selection.arguments import Count

if TYPE_CHECKING:
    from determined.config.experiment import ExperimentConfig
    from determined.config.length import Length
    from determined.searchers.preview import Preview

_PLAN = [Column("Trials"), Column("Training Time")]
_BRACKETS = [Column("Bracket"), Column("Trials"), Column("At Once"), Column("Rungs")]


@click.command("preview-search", cls=Command, action="preview the search")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@with_overrides
@click.option("--slots", type=Count(min=1), help="Number of slots (default: all).")
@with_json
def preview_search(config_file: Path, overrides: tuple[str, ...], slots: int | None, form: Form) -> None:
    """Preview a search without starting it.

    Shows how many trials are trained for how long, if every rung promotes the same share.

    \b
    Example: det preview-search adaptive.yaml --config searcher.max_trials=100
    """
    from determined.config.dump import dump_yaml
    from determined.config.experiment import load_experiment

    loaded = load_experiment(config_file, overrides=overrides)
    config = loaded.config
    for note in loaded.notes:
        click.echo(visible_lines(note), err=True)
    preview = preview_of(config, slots)
    if form == "json":
        print_json(preview_plain(config, preview))
        return
    searcher = {"searcher": config.searcher.plain()}
    click.echo(visible_lines(f"{dump_yaml(searcher)}\n{preview_text(config, preview)}"))


def preview_of(config: ExperimentConfig, slots: int | None) -> Preview:
    """Return the preview of a configuration's search on this machine."""
    import os

    from determined.engines.slots import find_slots
    from determined.searchers.preview import preview

    return preview(config.searcher, config.hyperparameters, slots=find_slots(slots, os.environ).count)


def preview_text(config: ExperimentConfig, preview: Preview) -> str:
    """Return the plan, the brackets, the total training time, warnings and suggestions as text."""
    parts = [table(_PLAN, _plan(config, preview))]
    if preview.brackets:
        rows = [
            [position, bracket.trials, bracket.at_once, ", ".join(map(str, bracket.thresholds))]
            for position, bracket in enumerate(preview.brackets)
        ]
        parts.append(table(_BRACKETS, rows))
    if preview.units is not None:
        share = "" if preview.share is None else f", {100 * preview.share:.1f}% of training all trials to the end"
        parts.append(f"Total: {preview.units:,} {preview.time_metric}{share}.")
    if preview.ranges:
        parts.append(
            "\n".join(f"{one.name} lies between {number(one.low)} and {number(one.high)}." for one in preview.ranges)
        )
    parts += [f"Warning: {warning}" for warning in preview.warnings]
    parts += [f"Suggestion: {suggestion}" for suggestion in preview.suggestions]
    return "\n\n".join(parts)


def preview_plain(config: ExperimentConfig, preview: Preview) -> dict[str, Any]:
    """Return a preview as JSON data."""
    return {
        "searcher": config.searcher.plain(),
        "trials": preview.trials,
        "at_once": preview.at_once,
        "plan": [{"time": time, "trials": trials} for time, trials in preview.plan],
        "brackets": [
            {"trials": one.trials, "at_once": one.at_once, "rungs": list(one.thresholds)} for one in preview.brackets
        ],
        "time_metric": preview.time_metric,
        "units": preview.units,
        "share": preview.share,
        "ranges": [{"name": one.name, "low": one.low, "high": one.high} for one in preview.ranges],
        "warnings": list(preview.warnings),
        "suggestions": list(preview.suggestions),
    }


def _plan(config: ExperimentConfig, preview: Preview) -> list[Row]:
    """Return the rows of the plan: the expected number of trials for each training time."""
    if preview.plan:
        return [[trials, f"{time} {preview.time_metric}"] for time, trials in preview.plan]
    length = config.searcher.max_length
    return [[preview.trials, _length(length) if length is not None else "to the end of the program"]]


def _length(length: Length) -> str:
    """Return a length as text, for example `3 epochs`."""
    return str(length.value) if length.unit is None else f"{length.value} {length.unit}"
