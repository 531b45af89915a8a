"""The exceptions that users catch or several packages raise, in one hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from determined import sentences


class DeterminedError(Exception):
    """Base of all exceptions of this library."""


class InvalidExperimentException(DeterminedError):
    """A training program that cannot work as written; the message says which part and what to change."""


class StartupHookError(InvalidExperimentException):
    """The `startup-hook.sh` of an experiment failed or cannot be run. `summary` is the message without its details."""

    def __init__(self, summary: str, details: str = "") -> None:
        self.summary = summary
        super().__init__(summary + details)


class InvalidModelException(InvalidExperimentException):
    """A model that cannot be trained as given."""


class InvalidConfigurationException(InvalidExperimentException):
    """A configuration with a value that cannot be used."""

    def __init__(self, config: object = None, message: str = "") -> None:
        self.config = config
        super().__init__(message or str(config))


class Mistake(NamedTuple):
    """One error in a configuration: place, message and hint.

    `path` is the dotted path of the field, `file` the file or the option in which it was given.
    """

    path: str
    line: int | None
    message: str
    hint: str = ""
    file: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else str(self.line) if self.file else f"line {self.line}"
        place = ":".join(filter(None, (self.file, line)))
        hint = f"; {self.hint}" if self.hint else ""
        return ": ".join(filter(None, (place, self.path, f"{self.message}{hint}")))


class InvalidExperimentConfig(InvalidConfigurationException):
    """An experiment configuration with errors; the message lists all of them, one per line."""

    def __init__(self, mistakes: Sequence[Mistake], text: str = "") -> None:
        self.mistakes = list(mistakes)
        super().__init__(message=text or "\n".join(map(str, mistakes)))


class InvalidDataTypeException(InvalidExperimentException):
    """Data of a type that the library cannot handle."""


class InternalException(DeterminedError):
    """A member was used before it has a value."""


class InvalidCheckpointException(DeterminedError):
    """A checkpoint that cannot be read; the message names the checkpoint and the reason."""


# The second base classes let programs catch these errors in the way that is usual for their kind.
class TrainingOnImportError(DeterminedError, RuntimeError):
    """Code that starts a run when it is imported, from a checkpoint or for an entrypoint check."""


class CheckpointNotFound(DeterminedError):
    """No checkpoint is stored under this id."""


class CheckpointInUse(DeterminedError):
    """A checkpoint that cannot be deleted; the message says what needs it."""


class CheckpointStateException(DeterminedError):
    """A checkpoint some or all of whose files were deleted."""


class CheckFailedError(DeterminedError):
    """A program violated a condition of the API."""


class NoDirectStorageAccess(DeterminedError):
    """A checkpoint storage that cannot be opened from this machine."""


class StorageAccessError(NoDirectStorageAccess, PermissionError):
    """A checkpoint storage that rejects the credentials, or for which there are none."""


class DistributedError(DeterminedError):
    """A collective operation failed; the message names the rank that is missing or failed."""


class StoreError(DeterminedError):
    """The store cannot be used; the message names it and the reason."""


class TrialRunning(StoreError):
    """Another process is running this trial of a standalone run."""

    def __init__(self, trial_id: int, message: str) -> None:
        super().__init__(message)
        self.trial_id = trial_id


class NotFoundException(StoreError, ValueError):
    """The store has no experiment, trial, checkpoint or model with this id or name."""

    @classmethod
    def of(cls, kind: str, name: int | str) -> NotFoundException:
        """Return the error for an object that does not exist: `Trial 9999 not found.`"""
        return cls(f"{sentences.capitalized(kind)} {name} not found.")


class StoreUnavailable(StoreError):
    """The store cannot be reached at the moment, for example during a server restart."""


class StoreFull(StoreUnavailable):
    """The disk of the store is full. Retrying soon is unlikely to help."""


class StoreVersionError(StoreError):
    """The store belongs to another version of this library; the message says which, and what to do."""


class StoreReadOnly(StoreError):
    """The store can be read but not written; the message says why."""


class ExperimentHeld(DeterminedError):
    """Another process is running this experiment; the message says which one, where, and since when."""


class LeaseLost(DeterminedError):
    """Another process has taken over this experiment; this process must not write to it any more."""


class EngineError(DeterminedError):
    """A trial's processes cannot be started; the message says why."""


class MissingExtraError(DeterminedError, ImportError):
    """The optional package of a feature is not installed; the message names the extra."""


class InvalidHP(DeterminedError):
    """Raise this in a trial whose hyperparameters make no sense: the trial ends, and the search continues."""

    def __init__(self, msg: str = "these hyperparameters were refused by the trial") -> None:
        if not isinstance(msg, str):
            raise TypeError(f"InvalidHP takes a message of type str, got {type(msg).__name__}: {msg!r}")
        super().__init__(msg)
