"""The `checkpoint_storage` block: where checkpoints are stored, and how many are kept."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_type_hints

from pydantic import create_model

from determined.config.blocks.block import TAG, Block, tag_by
from determined.config.registry.implementation import load
from determined.config.registry.storage_types import STORAGE_TYPES
from determined.config.validators import Count


class StorageBlock(Block):
    """The fields that all storage types have: how many checkpoints are kept."""

    type: str
    save_experiment_best: Count = 0
    save_trial_best: Count = 1
    save_trial_latest: Count = 1


class LocalStorage(StorageBlock):
    """The data directory of this machine, used if no `type` is given."""

    type: Literal["local"] = "local"

    def plain(self) -> dict[str, Any]:
        """Return the block without its `type`, which a file must not contain."""
        return {name: value for name, value in super().plain().items() if name != "type"}


def storage_models() -> dict[str, type[StorageBlock]]:
    """Return the models of all storage types by name, `local` included."""
    return {"local": LocalStorage, **{name: storage_model(name) for name in STORAGE_TYPES}}


@cache
def storage_model(name: str) -> type[StorageBlock]:
    """Return the model of a registered storage type, which has the fields of its settings.

    The settings themselves are not a model, because workers read them without importing pydantic.
    """
    settings = load(STORAGE_TYPES[name].implementation)
    # With extras, because the validators are in the annotations.
    hints = get_type_hints(settings, include_extras=True)
    fields: dict[str, Any] = {"type": (Literal[name], ...)}
    fields |= {field: (hints[field], getattr(settings, field, ...)) for field in settings.fields()}
    return create_model(settings.__name__, __base__=StorageBlock, __doc__=settings.__doc__, **fields)


def storage_tag(value: Any) -> str | None:
    """Return the tag by which pydantic selects the model of a `checkpoint_storage` block; None if no model fits.

    A block without `type` that has only retention settings is the local directory. `type: local` itself is rejected.
    """
    # A model that was validated before, as in `model_copy`.
    if not isinstance(value, dict):
        return tag_by("type")(value)
    if "type" in value:
        return tag_by("type")(value) if value["type"] != "local" else None
    return TAG + "local" if set(value) <= set(LocalStorage.model_fields) else None
