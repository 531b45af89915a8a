"""Show a comparison of experiments and trials as tables, CSV or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from determined.cli.display.output import iso_time
from determined.cli.display.safe_text import visible
from determined.cli.display.table import Column, Row, number, table
from determined.cli.display.times import duration, time_text
from determined.cli.experiment.comparison.curves import charts
from determined.cli.experiment.comparison.entries import ComparisonEntry
from determined.experiment.side_by_side import Line, differ, lines_of


def comparison_text(found: Sequence[ComparisonEntry]) -> str:
    """Return the tables and charts of a comparison."""
    titles = [Column(one.title, long=True, rank=0) for one in found]
    marked = [Column("Differs"), Column("Hyperparameter"), *titles]
    parts = [visible(f"The best is {winner.title}.")] if (winner := _winner(found)) else []
    parts.append("Results\n" + table([Column(""), *titles], [[name, *values] for name, _, values in _results(found)]))
    hparams = _hparams(found)
    if hparams:
        parts.append("Hyperparameters\n" + table(marked, [_marked(line) for line in hparams]))
    config = [line for line in _config(found) if _is_set(line.name, found)]
    if config:
        columns = [Column("Configuration", long=True, rank=0), *titles]
        parts.append(
            f"Where the configurations differ\n{table(columns, [[name, *values] for name, _, values in config])}"
        )
    return "\n\n".join([*parts, *charts(found)])


def all_columns(found: Sequence[ComparisonEntry]) -> list[Column]:
    """Return the columns of the complete comparison: one for each entry."""
    return [Column("Part"), Column("Name"), Column("Differs"), *(Column(one.title) for one in found)]


def all_rows(found: Sequence[ComparisonEntry]) -> list[Row]:
    """Return everything except the curves as rows of one table."""
    parts = (("result", _results(found)), ("hyperparameter", _hparams(found)), ("configuration", _config(found)))
    return [[part, name, differs, *values] for part, lines in parts for name, differs, values in lines]


def comparison_plain(found: Sequence[ComparisonEntry]) -> dict[str, Any]:
    """Return a comparison as JSON data."""
    winner = _winner(found)
    return {
        "contenders": [_entry_plain(one) for one in found],
        "best": None if winner is None else found.index(winner),
        "hyperparameters": [
            {"name": name, "differs": differs, "values": values} for name, differs, values in _hparams(found)
        ],
        "config": [{"name": name, "values": values} for name, _, values in _config(found)],
    }


def _entry_plain(one: ComparisonEntry) -> dict[str, Any]:
    """Return an entry of a comparison as JSON data."""
    measured, trial = one.measured, one.trial
    best = None if measured is None else measured.best
    return {
        "experiment_id": one.experiment.id,
        "trial_id": None if trial is None else trial.id,
        "name": one.experiment.name,
        "state": one.experiment.state,
        "trial_state": None if trial is None else trial.state,
        "started": iso_time(one.experiment.created),
        "trial_count": one.experiment.trial_count,
        "metric": None if measured is None else measured.name,
        "group": None if measured is None else measured.group,
        "smaller_is_better": None if measured is None else measured.smaller_is_better,
        "best": None if best is None else best[1],
        "best_at": None if best is None else best[0],
        "batches": None if trial is None else trial.steps_completed,
        "seconds": one.lasted,
        "trial_seconds": one.seconds,
        "hparams": one.hparams,
        "curve": [] if measured is None else [[step, value] for step, value in measured.points],
    }


def _results(found: Sequence[ComparisonEntry]) -> list[Line]:
    """Return the rows of the comparison that show results, such as the best metric, one value per experiment."""

    def best(one: ComparisonEntry) -> str:
        return "" if one.measured is None or one.measured.best is None else number(one.measured.best[1])

    def at(one: ComparisonEntry) -> Any:
        return None if one.measured is None or one.measured.best is None else one.measured.best[0]

    lines: list[tuple[str, list[Any]]] = [
        ("Name", [one.experiment.name for one in found]),
        ("State", [one.experiment.state for one in found]),
        ("Trials", [one.experiment.trial_count for one in found]),
        ("Compared trial", [None if one.trial is None else one.trial.id for one in found]),
        ("State of the trial", ["" if one.trial is None else one.trial.state for one in found]),
        ("Metric", ["" if one.measured is None else one.measured.described for one in found]),
        ("Best", [best(one) for one in found]),
        ("Best at batch", [at(one) for one in found]),
        ("Batches", [None if one.trial is None else one.trial.steps_completed for one in found]),
        ("Started", [time_text(one.experiment.created) for one in found]),
        ("Duration", ["" if one.lasted is None else duration(one.lasted) for one in found]),
        ("Duration of the trial", ["" if one.trial is None else duration(one.seconds) for one in found]),
    ]
    return [Line(name, differ(values), values) for name, values in lines]


def _hparams(found: Sequence[ComparisonEntry]) -> list[Line]:
    """Return the lines of the hyperparameters."""
    return lines_of([one.hparams for one in found])


def _config(found: Sequence[ComparisonEntry]) -> list[Line]:
    """Return the lines of the configuration that differ."""
    return [line for line in lines_of([one.config for one in found]) if line.differs]


def _is_set(name: str, found: Sequence[ComparisonEntry]) -> bool:
    """Return whether a user set this value that differs.

    The configuration of a search contains all defaults, that of a standalone run none. A value that only standalone
    runs lack therefore counts as a difference only if a user set it.
    """
    if all(name in one.config or not one.experiment.is_standalone for one in found):
        return True
    return any(
        name == given or name.startswith(f"{given}.") or given.startswith(f"{name}.")
        for one in found
        for given in one.given
    )


def _marked(line: Line) -> Row:
    return ["*" if line.differs else "", line.name, *line.values]


def _winner(found: Sequence[ComparisonEntry]) -> ComparisonEntry | None:
    """Return the best entry, or None if they are not compared by the same metric, or two are equally good."""
    kinds = {(one.measured.name, one.measured.group, one.measured.smaller_is_better) for one in found if one.measured}
    ranked = [(one.measured.best[1], one) for one in found if one.measured and one.measured.best]
    if len(kinds) != 1 or len(ranked) < 2:
        return None
    ((_, _, smaller_is_better),) = kinds
    if smaller_is_better is None:
        return None
    ranked.sort(key=lambda pair: pair[0], reverse=not smaller_is_better)
    return None if ranked[0][0] == ranked[1][0] else ranked[0][1]
