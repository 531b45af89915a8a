"""Preview a search before it is run, as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.cli.display.table import Column, Row, number, table

if TYPE_CHECKING:
    from determined.config.experiment import ExperimentConfig
    from determined.config.length import Length
    from determined.searchers.preview import Preview

_PLAN = [Column("Trials"), Column("Training Time")]
_BRACKETS = [Column("Bracket"), Column("Trials"), Column("At Once"), Column("Rungs")]


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
        parts.append(f"In all {preview.units:,} {preview.time_metric}{share}.")
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
    if preview.plan:
        return [[trials, f"{time} {preview.time_metric}"] for time, trials in preview.plan]
    length = config.searcher.max_length
    return [[preview.trials, _length(length) if length is not None else "to the end of the program"]]


def _length(length: Length) -> str:
    return str(length.value) if length.unit is None else f"{length.value} {length.unit}"
