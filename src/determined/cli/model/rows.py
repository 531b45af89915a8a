"""Show models and their versions as tables and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from determined.cli.display.json_rows import checkpoint_plain
from determined.cli.display.output import Field, iso_time
from determined.cli.display.times import ago, time_text
from determined.errors import NotFoundException

if TYPE_CHECKING:
    from determined.store.records import StoredCheckpoint
    from determined.store.store import Store
    from determined.store.substores.registry import Model, ModelVersion

_DIGITS_OF_AN_ID = 18  # every number of 18 digits fits 64 bits


@dataclass(frozen=True)
class Version:
    """A version of a model, and its checkpoint."""

    row: ModelVersion
    checkpoint: StoredCheckpoint


# In pipes the columns are Determined's, in its order, because scripts rely on them.
MODEL: list[Field[Model]] = [
    Field("ID", lambda model: model.id, rank=0),
    Field("Name", lambda model: model.name, long=True, rank=0),
    Field("Description", lambda model: model.description, long=True),
    Field("Workspace ID", lambda model: None),  # there are no workspaces
    Field("Versions", lambda model: model.versions, shown="terminal"),
    Field(
        "Creation Time",
        lambda model: time_text(model.created),
        on_terminal=lambda model: ago(model.created),
        rank=2,
    ),
    Field(
        "Last Updated Time",
        lambda model: time_text(model.updated),
        on_terminal=lambda model: ago(model.updated),
        rank=2,
    ),
    Field("Metadata", lambda model: model.metadata, on_terminal=lambda model: model.metadata or None, long=True),
    Field("Labels", lambda model: ", ".join(model.labels), shown="wide", long=True),
    Field("Owner", lambda model: model.owner, shown="wide"),
    Field("Archived", lambda model: model.archived, shown="wide"),
    Field("Notes", lambda model: model.notes, shown="wide", long=True),
]
VERSION: list[Field[Version]] = [
    Field("Version #", lambda version: version.row.number, rank=0),
    Field("Trial ID", lambda version: version.checkpoint.trial_id),
    Field("Batch #", lambda version: version.checkpoint.steps_completed),
    Field("Checkpoint UUID", lambda version: version.checkpoint.checkpoint_id, rank=0),
    Field("Validation Metrics", lambda version: version.checkpoint.validation, long=True),
    Field(
        "Metadata",
        lambda version: version.row.metadata,
        on_terminal=lambda version: version.row.metadata or None,
        long=True,
    ),
    Field("Name", lambda version: version.row.name, shown="wide", long=True),
    Field("Labels", lambda version: ", ".join(version.row.labels), shown="wide", long=True),
    Field("Registered", lambda version: time_text(version.row.created), shown="wide"),
    Field("Notes", lambda version: version.row.notes, shown="wide", long=True),
]


def find_model(store: Store, name: str) -> Model:
    """Return the model with that name, or else with that id; raise NotFoundException if there is none."""
    found = store.registry.find_model(name)
    # A name of digits is tried first; a longer number cannot be an id.
    if found is None and name.isdecimal() and len(name) <= _DIGITS_OF_AN_ID:
        return store.registry.model(int(name))
    if found is None:
        raise NotFoundException.of("model", repr(name))
    return found


def versions_of(store: Store, model: Model) -> list[Version]:
    """Return the versions of a model, newest first."""
    return [Version(row, store.upkeep.checkpoint(row.checkpoint)) for row in store.registry.versions(model.id)]


def model_plain(model: Model) -> dict[str, Any]:
    """Return a model as JSON data."""
    return {
        "id": model.id,
        "name": model.name,
        "description": model.description,
        "notes": model.notes,
        "labels": model.labels,
        "metadata": model.metadata,
        "owner": model.owner,
        "archived": model.archived,
        "created": iso_time(model.created),
        "updated": iso_time(model.updated),
        "version_count": model.versions,
    }


def version_plain(version: Version) -> dict[str, Any]:
    """Return a version of a model as JSON data."""
    row = version.row
    return {
        "version": row.number,
        "name": row.name,
        "notes": row.notes,
        "labels": row.labels,
        "metadata": row.metadata,
        "created": iso_time(row.created),
        "updated": iso_time(row.updated),
        "checkpoint": checkpoint_plain(version.checkpoint, None),
    }
