"""Store parts of a state as pickles in a separate file, for trials that call `allow_pickled_state`.

Reading a pickle can run code. These are therefore read only when a trial that made the same call resumes training,
never to load weights or to verify, export or show a checkpoint.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from determined.errors import InvalidCheckpointException
from determined.pytorch.checkpoint.state_codec import References

FILE = "pickled_state.pkl"


class Pickles:
    """Collects values that are pickled separately and numbered from 0."""

    def __init__(self, references: References) -> None:
        self.parts: list[bytes] = []
        self._references = references

    def add(self, value: Any) -> int:
        """Pickle a value, append it to `parts` and return its index there; errors of pickle are raised."""
        # A separate pickle for each value, so that a value that cannot be pickled does not spoil the others.
        content = io.BytesIO()
        _Pickler(content, self._references).dump(value)
        self.parts.append(content.getvalue())
        return len(self.parts) - 1


def write(parts: list[bytes], directory: Path) -> None:
    """Write the pickled parts to their file in a checkpoint directory."""
    # The parts stay bytes inside the file, so that each is unpickled on its own, and only if it is needed.
    (directory / FILE).write_bytes(pickle.dumps(parts, protocol=4))


class PickledParts:
    """The pickled parts of a checkpoint; the file is read when the first part is requested."""

    def __init__(self, directory: Path, name: str, references: References) -> None:
        self._directory = directory
        self._name = name
        self._references = references
        self._parts: list[bytes] | None = None

    def get(self, number: int) -> Any:
        """Unpickle and return one part. This can run code: the trial declared that it trusts its checkpoints."""
        if self._parts is None:
            self._parts = self._read()
        if not 0 <= number < len(self._parts):
            raise ValueError(f"{FILE} has {len(self._parts)} parts, and number {number} is wanted")
        return _Unpickler(io.BytesIO(self._parts[number]), self._references).load()

    def _read(self) -> list[bytes]:
        """Return the list of pickled parts; the parts themselves are not unpickled."""
        try:
            parts = pickle.loads((self._directory / FILE).read_bytes())
        except Exception as error:  # a damaged pickle can raise anything
            raise InvalidCheckpointException(f"checkpoint {self._name} cannot be read: {FILE}: {error}") from error
        if not isinstance(parts, list) or not all(isinstance(part, bytes) for part in parts):
            raise InvalidCheckpointException(f"checkpoint {self._name} cannot be read: {FILE} holds no list of parts")
        return parts


class _Pickler(pickle.Pickler):
    """A pickler that writes objects of the run as references."""

    def __init__(self, file: io.BytesIO, references: References) -> None:
        super().__init__(file, protocol=4)  # fixed, so that an older Python can read the checkpoint, too
        self._references = references

    def persistent_id(self, value: Any) -> str | None:
        """Return the name of an object of the run (such as a model or the trial): it is referenced, not copied."""
        return self._references.name_of(value)


class _Unpickler(pickle.Unpickler):
    """An unpickler that resolves references to objects of this run."""

    def __init__(self, file: io.BytesIO, references: References) -> None:
        super().__init__(file)
        self._references = references

    def persistent_load(self, name: str) -> Any:
        """Return the object of this run with that name."""
        return self._references.get(name)
