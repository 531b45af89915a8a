"""Parts of a state as pickles in a file of their own, for trials that call `allow_pickled_state`.

Reading a pickle can run code. So these are read only when a trial that made the same call is trained, never to load
weights, to verify, to export or to show a checkpoint.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from determined.errors import InvalidCheckpointException
from determined.pytorch.state_codec import References

FILE = "pickled_state.pkl"


class Pickles:
    """Parts that are pickled separately, numbered from 0."""

    def __init__(self, references: References) -> None:
        self.parts: list[bytes] = []
        self._references = references

    def add(self, value: Any) -> int:
        """Pickle a value and return its number; any failure is raised."""
        content = io.BytesIO()
        _Pickler(content, self._references).dump(value)
        self.parts.append(content.getvalue())
        return len(self.parts) - 1


def write(parts: list[bytes], directory: Path) -> None:
    (directory / FILE).write_bytes(pickle.dumps(parts, protocol=4))


class PickledParts:
    """The file of a checkpoint, read when a part of it is wanted."""

    def __init__(self, directory: Path, name: str, references: References) -> None:
        self._directory = directory
        self._name = name
        self._references = references
        self._parts: list[bytes] | None = None

    def get(self, number: int) -> Any:
        """Unpickle one part. This can run code: the trial said that it trusts its checkpoints."""
        if self._parts is None:
            self._parts = self._read()
        if not 0 <= number < len(self._parts):
            raise ValueError(f"{FILE} has {len(self._parts)} parts, and number {number} is wanted")
        return _Unpickler(io.BytesIO(self._parts[number]), self._references).load()

    def _read(self) -> list[bytes]:
        try:
            parts = pickle.loads((self._directory / FILE).read_bytes())
        except Exception as error:  # a damaged pickle can raise anything
            raise InvalidCheckpointException(f"checkpoint {self._name} cannot be read: {FILE}: {error}") from error
        if not isinstance(parts, list) or not all(isinstance(part, bytes) for part in parts):
            raise InvalidCheckpointException(f"checkpoint {self._name} cannot be read: {FILE} holds no list of parts")
        return parts


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, references: References) -> None:
        super().__init__(file, protocol=4)
        self._references = references

    def persistent_id(self, value: Any) -> str | None:
        """Models, optimizers, the trial and the like are referred to, as in the rest of the state."""
        return self._references.name_of(value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, references: References) -> None:
        super().__init__(file)
        self._references = references

    def persistent_load(self, name: str) -> Any:
        return self._references.get(name)
