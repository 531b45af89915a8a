"""The interface of a storage type: the settings of its `checkpoint_storage` block, and the storage made from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from determined.config.storage_directory import RETENTION

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage
    from determined.errors import Mistake


class StorageSettings(ABC):
    """The settings of a storage type. Each is registered in `determined/config/registry/storage_types.py`.

    The annotated fields of a subclass are the fields of its block. From them the model is made that validates a
    configuration; a field without a default is required. Workers make the settings from the block of a stored
    configuration, without validation and without pydantic. For the same reason a module of a storage type must not
    import anything large before `build` is called.
    """

    # Why this type cannot be given to `core.init(checkpoint_storage=...)`; empty if it can.
    not_as_argument: ClassVar[str] = ""
    # Where credentials are given, for users who write them into a URI.
    credentials_advice: ClassVar[str] = ""

    def __init__(self, block: Mapping[str, Any]) -> None:
        """Read a block. Raise ValueError if fields are missing or unknown."""
        kind, fields = block.get("type"), self.fields()
        missing = sorted(name for name, required in fields.items() if required and block.get(name) is None)
        if missing:
            raise ValueError(f"checkpoint_storage of type {kind} needs {', '.join(missing)}")
        unknown = sorted(str(name) for name in block if name not in fields and name not in ("type", *RETENTION))
        if unknown:
            raise ValueError(f"checkpoint_storage of type {kind} does not know {', '.join(unknown)}")
        for name in fields:
            # None means not set, and keeps the default of the class.
            if block.get(name) is not None:
                setattr(self, name, block[name])

    @classmethod
    def fields(cls) -> dict[str, bool]:
        """Return the fields of the block, and whether each is required."""
        # Annotations stay texts: evaluating them would take longer than everything else here.
        # From the base class on, so that a subclass can override an annotation.
        kinds = [kind for kind in reversed(cls.__mro__) if issubclass(kind, StorageSettings)]
        known = {name: str(text) for kind in kinds for name, text in kind.__annotations__.items()}
        return {name: not hasattr(cls, name) for name, text in known.items() if not _is_class_variable(text)}

    @classmethod
    def problems(cls, block: Mapping[str, Any]) -> Iterator[Mistake]:
        """Yield inconsistencies between fields of an unvalidated block; paths begin with `checkpoint_storage`."""
        yield from ()

    @classmethod
    def directory(cls, block: Mapping[str, Any]) -> str | None:
        """Return the directory of this machine that an unvalidated block names; None if it names none."""
        return None

    @abstractmethod
    def build(self) -> CheckpointStorage:
        """Return the storage. Raise ValueError for invalid settings, without showing secrets."""


def _is_class_variable(annotation: str) -> bool:
    return annotation.partition("[")[0].rpartition(".")[2] == "ClassVar"
