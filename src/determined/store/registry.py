"""The model registry: records of models and their versions, and the `Registry` interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


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


class Registry(Protocol):
    """The models of a store. Names may be any text.

    Operations that cannot be done raise a `StoreError` with the reason.
    """

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
        ...

    def model(self, model_id: int) -> Model: ...

    def find_model(self, name: str) -> Model | None: ...

    def models(self) -> list[Model]:
        """Return all models including archived ones, oldest first."""
        ...

    def edit_model(self, model_id: int, edit: Edit) -> Model: ...

    def delete_model(self, model_id: int) -> None:
        """Delete a model and its versions. Their checkpoints are kept but no longer protected from deletion."""
        ...

    def register(self, model_id: int, checkpoint: str) -> ModelVersion:
        """Register a complete checkpoint as the next version of a model, which protects it from deletion."""
        ...

    def versions(self, model_id: int) -> list[ModelVersion]:
        """Return the versions of a model, newest first."""
        ...

    def edit_version(self, model_id: int, number: int, edit: Edit) -> ModelVersion: ...

    def delete_version(self, model_id: int, number: int) -> None: ...

    def registered(self, experiment_id: int) -> set[str]:
        """Return the ids of the checkpoints of an experiment that are registered as model versions."""
        ...
