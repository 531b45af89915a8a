"""The model registry: models, and checkpoints as their versions."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from determined.errors import NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.sql.columns import text

_MODELS = """SELECT m.id, m.name, m.description, m.notes, m.labels, m.metadata, m.owner, m.archived, m.created,
    m.updated, (SELECT count(*) FROM model_versions v WHERE v.model_id = m.id) FROM models m"""
_VERSIONS = """SELECT model_id, number, checkpoint, name, notes, labels, metadata, created, updated
    FROM model_versions WHERE model_id = ?"""


class Model(NamedTuple):
    """A registered model."""

    id: int
    name: str
    description: str
    notes: str
    labels: list[str]
    metadata: dict[str, Any]
    owner: str
    archived: bool
    created: float
    updated: float
    versions: int  # number of versions


class ModelVersion(NamedTuple):
    """A checkpoint registered under a version number of a model. Numbers are never reused."""

    model_id: int
    number: int
    checkpoint: str
    name: str
    notes: str
    labels: list[str]
    metadata: dict[str, Any]
    created: float
    updated: float


@dataclass(frozen=True)
class Edit:
    """The changed values of a model or a version; None means unchanged."""

    name: str | None = None
    description: str | None = None  # models only
    notes: str | None = None
    labels: Sequence[str] | None = None
    archived: bool | None = None  # models only
    set_metadata: dict[str, Any] = field(default_factory=dict)
    remove_metadata: Sequence[str] = ()


class Registry:
    """The models of a store. Names may be any text.

    Operations that cannot be done raise a `StoreError` with the reason.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_model(
        self,
        name: str,
        *,
        description: str = "",
        labels: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        owner: str = "",
    ) -> Model:
        """Create a model. Raise `StoreError` if the name is taken."""
        self._check_name(name)
        now = time.time()
        # Exclusive, so that two processes cannot both find the name free; the second would fail with an unclear error.
        with self._database.transaction(exclusive=True):
            self._refuse_taken(name)
            self._database.execute(
                "INSERT INTO models (name, description, notes, labels, metadata, owner, created, updated) "
                "VALUES (?, ?, '', ?, ?, ?, ?, ?)",
                [
                    text(name),
                    text(description),
                    json.dumps(list(labels)),
                    json.dumps(metadata or {}),
                    text(owner),
                    now,
                    now,
                ],
            )
            found = self.find_model(name)
            assert found is not None
            return found

    def model(self, model_id: int) -> Model:
        """Return a model by its id; raise NotFoundException if it does not exist."""
        found = self._database.execute(f"{_MODELS} WHERE m.id = ?", [model_id])
        if not found:
            raise NotFoundException.of("model", model_id)
        return _model(found[0])

    def find_model(self, name: str) -> Model | None:
        """Return a model by its name, or None."""
        found = self._database.execute(f"{_MODELS} WHERE m.name = ?", [text(name)])
        return _model(found[0]) if found else None

    def models(self) -> list[Model]:
        """Return all models including archived ones, oldest first."""
        return [_model(row) for row in self._database.execute(f"{_MODELS} ORDER BY m.id")]

    def edit_model(self, model_id: int, edit: Edit) -> Model:
        """Change a model and return it."""
        # Exclusive, because the metadata is read, merged and written back, and a new name must stay free until the
        # commit.
        with self._database.transaction(exclusive=True):
            model = self.model(model_id)
            columns = _edited(edit, model.metadata)
            if edit.name is not None and edit.name != model.name:
                self._check_name(edit.name)
                self._refuse_taken(edit.name)
            if edit.description is not None:
                columns["description"] = text(edit.description)
            if edit.archived is not None:
                columns["archived"] = int(edit.archived)
            self._update("models", columns, "id = ?", [model_id])
            return self.model(model_id)

    def delete_model(self, model_id: int) -> None:
        """Delete a model and its versions. Their checkpoints are kept but no longer protected from deletion."""
        with self._database.transaction(exclusive=True):
            self.model(model_id)
            self._delete_versions("model_id = ?", [model_id])
            self._database.execute("DELETE FROM models WHERE id = ?", [model_id])

    def register(self, model_id: int, checkpoint_id: str) -> ModelVersion:
        """Register a complete checkpoint as the next version of a model, which protects it from deletion."""
        # Deletions of checkpoints are exclusive too. Otherwise a checkpoint could be deleted while it is registered.
        with self._database.transaction(exclusive=True):
            model = self.model(model_id)
            if model.archived:
                raise StoreError(f"the model {model.name!r} is archived: it takes no versions until it is unarchived")
            self._check_can_be_registered(checkpoint_id)
            now = time.time()
            # A counter in the model's row and not the largest number: the number of a deleted version must not be used
            # again.
            self._database.execute(
                "UPDATE models SET last_version = last_version + 1, updated = ? WHERE id = ?", [now, model_id]
            )
            ((number,),) = self._database.execute("SELECT last_version FROM models WHERE id = ?", [model_id])
            self._database.execute(
                "INSERT INTO model_versions (model_id, number, checkpoint, name, notes, labels, metadata, created, "
                "updated) VALUES (?, ?, ?, '', '', '[]', '{}', ?, ?)",
                [model_id, number, checkpoint_id, now, now],
            )
            return self._version(model_id, number)

    def versions(self, model_id: int) -> list[ModelVersion]:
        """Return the versions of a model, newest first."""
        found = self._database.execute(f"{_VERSIONS} ORDER BY number DESC", [model_id])
        return [_version(row) for row in found]

    def edit_version(self, model_id: int, number: int, edit: Edit) -> ModelVersion:
        """Change a version of a model and return it."""
        # Exclusive, because the metadata is read, merged and written back.
        with self._database.transaction(exclusive=True):
            columns = _edited(edit, self._version(model_id, number).metadata)
            self._update("model_versions", columns, "model_id = ? AND number = ?", [model_id, number])
            return self._version(model_id, number)

    def delete_version(self, model_id: int, number: int) -> None:
        """Delete a version of a model; its checkpoint stays."""
        with self._database.transaction(exclusive=True):
            self._version(model_id, number)
            self._delete_versions("model_id = ? AND number = ?", [model_id, number])
            self._database.execute("UPDATE models SET updated = ? WHERE id = ?", [time.time(), model_id])

    def registered(self, experiment_id: int) -> set[str]:
        """Return the ids of the checkpoints of an experiment that are registered as model versions."""
        found = self._database.execute(
            "SELECT DISTINCT v.checkpoint FROM model_versions v JOIN checkpoints c ON c.uuid = v.checkpoint "
            "JOIN trials t ON t.id = c.trial_id WHERE t.experiment_id = ?",
            [experiment_id],
        )
        return {checkpoint_id for (checkpoint_id,) in found}

    def _version(self, model_id: int, number: int) -> ModelVersion:
        """Return a version of a model; raise NotFoundException if it does not exist."""
        found = self._database.execute(f"{_VERSIONS} AND number = ?", [model_id, number])
        if not found:
            raise NotFoundException(f"Version {number} of model {self.model(model_id).name!r} not found.")
        return _version(found[0])

    def _delete_versions(self, condition: str, values: list[int]) -> None:
        """Delete versions of models. The runs that used one keep the record of its checkpoint."""
        # The references are cleared first, otherwise the foreign key would reject the deletion.
        doomed = f"SELECT id FROM model_versions WHERE {condition}"
        self._database.execute(
            f"UPDATE checkpoint_uses SET model_version = NULL WHERE model_version IN ({doomed})", values
        )
        self._database.execute(f"DELETE FROM model_versions WHERE {condition}", values)

    def _check_name(self, name: str) -> None:
        """Raise `StoreError` for an empty name of a model."""
        if not name.strip():
            raise StoreError(f"a model needs a name, got {name!r}")

    def _refuse_taken(self, name: str) -> None:
        """Raise `StoreError` if a model has this name."""
        taken = self.find_model(name)
        if taken is not None:
            raise StoreError(f"there is a model named {name!r} already: its id is {taken.id}")

    def _check_can_be_registered(self, checkpoint_id: str) -> None:
        """Raise if a checkpoint does not exist or is not complete."""
        found = self._database.execute("SELECT state FROM checkpoints WHERE uuid = ?", [text(checkpoint_id)])
        if not found:
            raise NotFoundException.of("checkpoint", checkpoint_id)
        ((state,),) = found
        if state != "ACTIVE":
            raise StoreError(f"checkpoint {checkpoint_id} is {state}: only a complete one can be registered")

    def _update(self, table: str, columns: dict[str, Any], condition: str, key: list[int]) -> None:
        """Change columns of one row; the names of table, columns and condition come from this module."""
        assignments = ", ".join(f"{name} = ?" for name in columns)
        self._database.execute(f"UPDATE {table} SET {assignments} WHERE {condition}", [*columns.values(), *key])


def _edited(edit: Edit, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the changed columns that models and versions have in common."""
    columns: dict[str, Any] = {"updated": time.time()}
    if edit.name is not None:
        columns["name"] = text(edit.name)
    if edit.notes is not None:
        columns["notes"] = text(edit.notes)
    if edit.labels is not None:
        columns["labels"] = json.dumps(list(edit.labels))
    if edit.set_metadata or edit.remove_metadata:
        merged = {**metadata, **edit.set_metadata}
        columns["metadata"] = json.dumps({key: merged[key] for key in merged if key not in edit.remove_metadata})
    return columns


def _model(row: Sequence[Any]) -> Model:
    """Build a `Model` from a row."""
    model_id, name, description, notes, labels, metadata, owner, archived, created, updated, versions = row
    return Model(
        model_id,
        name,
        description,
        notes,
        json.loads(labels),
        json.loads(metadata),
        owner,
        bool(archived),
        created,
        updated,
        versions,
    )


def _version(row: Sequence[Any]) -> ModelVersion:
    """Build a `ModelVersion` from a row."""
    model_id, number, checkpoint, name, notes, labels, metadata, created, updated = row
    return ModelVersion(
        model_id, number, checkpoint, name, notes, json.loads(labels), json.loads(metadata), created, updated
    )
