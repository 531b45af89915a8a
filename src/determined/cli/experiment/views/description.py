"""The text of `describe` on a terminal: the leaderboard, the experiment, and a single trial in detail."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from determined.cli.display.json_rows import resource_pool
from determined.cli.display.output import ColumnChoice, list_text
from determined.cli.display.safe_text import cut, visible
from determined.cli.display.table import details, number, percent
from determined.cli.display.times import ago, duration, time_text
from determined.cli.experiment.views.experiment_columns import lasted
from determined.cli.experiment.views.leaderboard import Leaderboard
from determined.cli.experiment.views.trial_metrics import summary_table
from determined.sentences import counted
from determined.store.experiment_records import nodes_text

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store

# A search may have thousands; the last line of the table says how to list them all.
_MOST_TRIALS = 10


def description(store: Store, board: Leaderboard) -> str:
    """Return the description of an experiment, with its leaderboard first."""
    parts = [f"{_headline(board)}\n{_trials(board)}" if board.entries else _headline(board)]
    if len(board.entries) == 1:
        trial = board.entries[0].trial
        parts.append(f"Hyperparameters\n{details([*board.entries[0].hparams.items()]) or ' none'}")
        parts.append(f"Metrics\n{summary_table(store.metrics(trial.id))}")
    parts.append(f"Experiment\n{details(_properties(board.experiment))}")
    if len(board.entries) == 1:
        parts.append(f"Trial\n{details(_trial_properties(board.entries[0].trial))}")
    return "\n\n".join(parts)


def _headline(board: Leaderboard) -> str:
    """Return one line with state, number of trials, duration, best metric and name."""
    row = board.experiment
    seconds = lasted(row)
    count = len(board.entries)
    best = "" if row.best is None else f", best {row.metric} {number(row.best)}"
    line = visible(
        f"Experiment {row.id}: {row.state}, {counted(count, 'trial')}"
        + ("" if seconds is None else f" in {duration(seconds)}")
        + f"{best} ({row.name})"
    )
    return cut(line, shutil.get_terminal_size().columns)


def _trials(board: Leaderboard) -> str:
    """Return the best trials as a table, with a command that shows all of them."""
    remark = f"det e list-trials {board.experiment.id} --wide"
    shown = list_text(board.fields(), board.entries[:_MOST_TRIALS], ColumnChoice(), remark=remark)
    if len(board.entries) <= _MOST_TRIALS:
        return shown
    return f"{shown}\nAll {len(board.entries)} trials: det experiment list-trials {board.experiment.id}"


def _properties(row: Experiment) -> list[tuple[str, object]]:
    """Return the properties of an experiment; empty ones are not shown."""
    return [
        ("ID", row.id),
        ("State", row.state),
        ("Progress", percent(row.progress)),
        ("Started", _moment(row.created)),
        ("Ended", _moment(row.ended)),
        ("Name", row.name),
        ("Description", row.description),
        ("Notes", row.notes),
        ("Labels", ", ".join(row.labels)),
        ("Owner", row.owner),
        ("Parent ID", row.parent_id),
        ("Archived", "yes" if row.archived else ""),
        ("Resource Pool", resource_pool(row)),
    ]


def _trial_properties(row: Trial) -> list[tuple[str, object]]:
    """Return the properties of the only trial of an experiment."""
    return [
        ("Trial ID", row.id),
        ("Batches", row.steps_completed),
        ("Restarts", row.restarts or None),
        ("Latest checkpoint", row.latest_checkpoint),
        ("Host", row.host if row.nodes is None else None),
        ("Nodes", None if row.nodes is None else nodes_text(row.nodes)),
    ]


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else f"{time_text(seconds)} ({ago(seconds)})"
