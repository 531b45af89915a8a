"""Models and their versions, as tables and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from determined.cli.output import iso_time
from determined.cli.plain import checkpoint_plain
from determined.cli.render import Column, Row, time_text
from determined.errors import NotFoundException

if TYPE_CHECKING:
    from determined.store.base import Store
    from determined.store.records import Checkpoint
    from determined.store.registry import Model, ModelVersion

MODEL = [
    Column("ID", rank=0),
    Column("Name", long=True, rank=0),
    Column("Description", long=True),
    Column("Workspace ID"),
    Column("Creation Time"),
    Column("Last Updated Time"),
    Column("Metadata", long=True),
]
VERSION = [
    Column("Version #", rank=0),
    Column("Trial ID"),
    Column("Batch #"),
    Column("Checkpoint UUID", rank=0),
    Column("Validation Metrics", long=True),
    Column("Metadata", long=True),
]
_DIGITS_OF_AN_ID = 18  # of 64 bits


@dataclass(frozen=True)
class Version:
    """A version and its checkpoint."""

    row: ModelVersion
    checkpoint: Checkpoint


def find_model(store: Store, name: str) -> Model:
    """By name, else by id."""
    found = store.registry.find_model(name)
    if found is None and name.isdecimal() and len(name) <= _DIGITS_OF_AN_ID:
        return store.registry.model(int(name))
    if found is None:
        raise NotFoundException.of("model", repr(name))
    return found


def versions_of(store: Store, model: Model) -> list[Version]:
    """The newest first."""
    return [Version(row, store.upkeep.checkpoint(row.checkpoint)) for row in store.registry.versions(model.id)]


def model_row(model: Model) -> Row:
    return [
        model.id,
        model.name,
        model.description,
        None,  # there are no workspaces
        time_text(model.created),
        time_text(model.updated),
        model.metadata,
    ]


def model_plain(model: Model) -> dict[str, Any]:
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


def version_row(version: Version) -> Row:
    checkpoint = version.checkpoint
    return [
        version.row.number,
        checkpoint.trial_id,
        checkpoint.steps_completed,
        checkpoint.uuid,
        checkpoint.validation,
        version.row.metadata,
    ]


def version_plain(version: Version) -> dict[str, Any]:
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
