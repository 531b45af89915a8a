"""The registry: models by name, and the checkpoints that are their versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class Model(NamedTuple):
    """A model as it is now."""

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
    versions: int  # how many there are


class ModelVersion(NamedTuple):
    """A checkpoint under a number of its model; a number is never given twice."""

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
    """What is new about a model or a version; None means unchanged."""

    name: str | None = None
    description: str | None = None  # of models
    notes: str | None = None
    labels: Sequence[str] | None = None
    archived: bool | None = None  # of models
    set_metadata: dict[str, Any] = field(default_factory=dict)
    remove_metadata: Sequence[str] = ()


class Registry(Protocol):
    """A call that cannot be carried out is a `StoreError` that says why. Names are data: any text will do."""

    def create_model(
        self,
        name: str,
        *,
        description: str = "",
        labels: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        owner: str = "",
    ) -> Model:
        """A name that is taken is refused."""
        ...

    def model(self, model_id: int) -> Model: ...

    def find_model(self, name: str) -> Model | None: ...

    def models(self) -> list[Model]:
        """The oldest first, archived ones among them."""
        ...

    def edit_model(self, model_id: int, edit: Edit) -> Model: ...

    def delete_model(self, model_id: int) -> None:
        """With its versions; their checkpoints stay, and are protected no longer."""
        ...

    def register(self, model_id: int, checkpoint: str) -> ModelVersion:
        """Make a whole checkpoint the model's next version: from now on nothing deletes it."""
        ...

    def versions(self, model_id: int) -> list[ModelVersion]:
        """The newest first."""
        ...

    def edit_version(self, model_id: int, number: int, edit: Edit) -> ModelVersion: ...

    def delete_version(self, model_id: int, number: int) -> None: ...

    def registered(self, experiment_id: int) -> set[str]:
        """The checkpoints of an experiment that are versions of a model."""
        ...
