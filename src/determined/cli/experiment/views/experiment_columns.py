"""Define the columns of a list of experiments."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from determined.cli.display.json_rows import resource_pool
from determined.cli.display.output import Field
from determined.cli.display.table import percent
from determined.cli.display.times import ago, duration, time_text
from determined.config.stored import StoredConfig
from determined.store.states import EXPERIMENT_ENDED

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment


def experiment_fields(*, projects: bool, archived: bool) -> list[Field[Experiment]]:
    """Return all columns; those shown in pipes are Determined's, in its order."""
    fields: list[Field[Experiment]] = [
        Field("ID", lambda row: row.id, rank=0),
        Field("Owner", lambda row: row.owner, rank=5),
        Field("Name", lambda row: row.name, long=True, rank=0),
        Field("Parent ID", lambda row: row.parent_id, rank=4),
        Field("State", lambda row: row.state, on_terminal=_state_and_progress, rank=0),
        Field("Progress", lambda row: percent(row.progress), shown="pipe"),
        Field("Trials", lambda row: row.trial_count, shown="terminal", rank=1),
        Field("Metric", lambda row: row.metric, shown="terminal", long=True, rank=3),
        Field("Best", lambda row: row.best, shown="terminal"),
        Field("Duration", _duration, shown="terminal"),
        Field("Started", lambda row: time_text(row.created), on_terminal=lambda row: ago(row.created)),
        Field("Ended", lambda row: time_text(row.ended), on_terminal=lambda row: ago(row.ended), shown="pipe"),
        Field("Resource Pool", resource_pool, rank=6),
        Field("Labels", lambda row: ", ".join(row.labels), shown="terminal", long=True, rank=4),
    ]
    # The user asked for these by an option, so they are shown in pipes as well.
    if projects:
        fields += [
            Field("Workspace", lambda row: StoredConfig(row.config).workspace, rank=2),
            Field("Project", lambda row: StoredConfig(row.config).project, rank=2),
        ]
    shown_archived = "everywhere" if archived else "wide"
    fields.append(Field("Archived", lambda row: row.archived, shown=shown_archived, rank=2))  # type: ignore[arg-type]
    return fields


def lasted(row: Experiment) -> float | None:
    """Return the seconds from the creation of an experiment to its end, or until now; None while it is paused."""
    if row.ended is None and (row.state in EXPERIMENT_ENDED or row.state == "PAUSED"):
        return None
    return max(0.0, (time.time() if row.ended is None else row.ended) - row.created)


def _duration(row: Experiment) -> str:
    seconds = lasted(row)
    return "" if seconds is None else duration(seconds)


def _state_and_progress(row: Experiment) -> str:
    """Return the state, with the progress unless it has ended: that takes less space than a column."""
    return row.state if row.state in EXPERIMENT_ENDED or not row.progress else f"{row.state} {100 * row.progress:.0f}%"
