"""Decide which checkpoints to keep under a retention policy, and delete the others.

A trial never loses its last undamaged checkpoint, unless the caller asks for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from determined.checkpoint_storage import manifest
from determined.checkpoint_storage.base import CheckpointStorage
from determined.config.metric_values import finite_number
from determined.config.storage_directory import RETENTION
from determined.errors import CheckpointNotFound, InvalidCheckpointException
from determined.ranking import best_first

logger = logging.getLogger("determined.checkpoint_storage")


@dataclass(frozen=True)
class Candidate:
    """The facts about a checkpoint that a clean-up needs."""

    checkpoint_id: str
    trial: int
    steps: int
    metric: float | None = None  # of the validation at the same step; None if there was none
    validated: int = 0  # position of that validation in the order of all validations
    registered: bool = False
    in_use: bool = False  # it is being read, or another trial started from it
    resources: Mapping[str, int] | None = field(default=None, compare=False)  # as recorded when it was stored


class RecordedCheckpoint(Protocol):
    """What the store records of a checkpoint; this package does not know the store."""

    @property
    def checkpoint_id(self) -> str: ...

    @property
    def trial_id(self) -> int: ...

    @property
    def steps_completed(self) -> int: ...

    @property
    def resources(self) -> dict[str, int]: ...

    @property
    def borrowed(self) -> bool: ...

    def validation_metric(self, name: str | None) -> Any: ...


def candidate(
    recorded: RecordedCheckpoint, metric: str | None = None, *, in_use: bool = False, registered: bool = False
) -> Candidate:
    """Return a recorded checkpoint with its value of the metric by which the best ones are determined."""
    return Candidate(
        checkpoint_id=recorded.checkpoint_id,
        trial=recorded.trial_id,
        steps=recorded.steps_completed,
        metric=finite_number(recorded.validation_metric(metric)),
        # The validation of a checkpoint is the one of the same step.
        validated=recorded.steps_completed,
        # Borrowed files belong to another store, which decides about them.
        registered=registered or recorded.borrowed,
        in_use=in_use,
        resources=recorded.resources,
    )


@dataclass(frozen=True)
class Policy:
    """How many checkpoints to keep, and whether smaller metrics are better."""

    save_experiment_best: int = 0
    save_trial_best: int = 1
    save_trial_latest: int = 1
    smaller_is_better: bool = True

    def __post_init__(self) -> None:
        for name in RETENTION:
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise ValueError(f"checkpoint_storage.{name} must be a whole number from 0 on, got {number!r}")


class CleanUp(NamedTuple):
    """The result of a clean-up."""

    removed: tuple[str, ...]  # including those that had been deleted before
    damaged: tuple[str, ...]  # found damaged during the clean-up


def keep(checkpoints: Iterable[Candidate], policy: Policy) -> set[str]:
    """Return the ids that the policy keeps. `checkpoints` are in the order in which they were stored."""
    stored = list(checkpoints)
    ranked = _best_first(stored, policy)
    kept = {checkpoint.checkpoint_id for checkpoint in stored if checkpoint.registered or checkpoint.in_use}
    kept.update(checkpoint.checkpoint_id for checkpoint in ranked[: policy.save_experiment_best])
    for trial in {checkpoint.trial for checkpoint in stored}:
        best = [checkpoint for checkpoint in ranked if checkpoint.trial == trial]
        kept.update(checkpoint.checkpoint_id for checkpoint in best[: policy.save_trial_best])
        kept.update(checkpoint.checkpoint_id for checkpoint in _newest_first(stored, trial)[: policy.save_trial_latest])
    return kept


def surplus(
    checkpoints: Iterable[Candidate],
    policy: Policy,
    is_good: Callable[[Candidate], bool],
    *,
    ended: Collection[int] = (),
    even_the_last: bool = False,
) -> list[Candidate]:
    """Return the checkpoints that a clean-up would delete.

    A checkpoint may be deleted only because others are kept; `is_good` verifies those others. A damaged one does not
    count as kept, so the next one in rank is kept as well. Every trial keeps at least one good checkpoint whatever the
    policy says. A trial that may be resumed (not in `ended`) keeps the good checkpoint with the most steps and the good
    one that was stored last. A trial without a good checkpoint loses none. With `even_the_last=True` the last three
    rules do not apply to trials in `ended`, which may lose all checkpoints.
    """
    stored = list(checkpoints)
    # Checkpoints that the policy names are kept even if damaged: reading may have failed only this time.
    kept = keep(stored, policy) | _kept_if_undamaged(stored, policy, is_good)
    doomed: list[Candidate] = []
    for trial in sorted({checkpoint.trial for checkpoint in stored}):
        newest = _newest_first(stored, trial)
        losing = [checkpoint for checkpoint in newest if checkpoint.checkpoint_id not in kept]
        if not losing:
            continue
        if not (even_the_last and trial in ended):
            spared = _always_kept(newest, stored, kept, is_good, resumable=trial not in ended)
            if not spared:
                logger.warning("trial %s has no good checkpoint: none of its checkpoints is removed", trial)
                continue
            losing = [checkpoint for checkpoint in losing if checkpoint.checkpoint_id not in spared]
        doomed += losing
    return doomed


def clean_up(
    storage: CheckpointStorage,
    checkpoints: Iterable[Candidate],
    policy: Policy,
    *,
    ended: Collection[int] = (),
    even_the_last: bool = False,
    claim: Callable[[list[str]], list[str]] | None = None,
) -> CleanUp:
    """Delete the `surplus` after the checkpoints that are kept were read and verified.

    `claim` is called once, before the first deletion, and returns which of these may be deleted; ids that it adds are
    deleted as well. Safe to call after each checkpoint and at the end, with the same checkpoints or fewer.
    """
    inspection = Inspection(lambda _: storage)
    doomed = surplus(checkpoints, policy, inspection.is_good, ended=ended, even_the_last=even_the_last)
    places = {
        checkpoint.checkpoint_id: f" (trial {checkpoint.trial}, step {checkpoint.steps})" for checkpoint in doomed
    }
    # The last moment before the deletion, because a checkpoint may have been registered since the list was read.
    removed = list(places) if claim is None else claim(list(places))
    for name in removed:
        try:
            storage.delete(name)
        # Deleted by an earlier clean-up that was killed before it could record that.
        except CheckpointNotFound:
            logger.debug("checkpoint %s%s was gone already", name, places.get(name, ""))
        else:
            logger.info("Deleted checkpoint %s%s under the retention policy.", name, places.get(name, ""))
    return CleanUp(tuple(removed), inspection.damaged())


def _always_kept(
    newest: list[Candidate],
    stored: list[Candidate],
    kept: set[str],
    is_good: Callable[[Candidate], bool],
    *,
    resumable: bool,
) -> set[str]:
    """Return the good checkpoints of one trial that are kept regardless of the policy; empty if it has none."""
    if not resumable:
        kept_first = sorted(newest, key=lambda checkpoint: checkpoint.checkpoint_id not in kept)
        orders = [kept_first]
    else:
        # After a rollback the checkpoint stored last, from which the trial resumes, is not the one with the most steps.
        last_stored_first = [checkpoint for checkpoint in reversed(stored) if checkpoint.trial == newest[0].trial]
        orders = [newest, last_stored_first]
    # Only as many checkpoints are verified as needed: reading one may take minutes.
    found = [next((checkpoint.checkpoint_id for checkpoint in order if is_good(checkpoint)), None) for order in orders]
    return {name for name in found if name is not None}


def _kept_if_undamaged(stored: list[Candidate], policy: Policy, is_good: Callable[[Candidate], bool]) -> set[str]:
    """Return the ids that the policy keeps if damaged checkpoints are ignored."""
    good = stored
    # Ends, because every round removes at least one checkpoint from `good`.
    while True:
        kept = keep(good, policy)
        losing = {checkpoint.trial for checkpoint in stored if checkpoint.checkpoint_id not in kept}
        # One of the experiment's best checkpoints may justify a deletion in any trial.
        relied_on = [
            c for c in good if c.checkpoint_id in kept and losing and (policy.save_experiment_best or c.trial in losing)
        ]
        damaged = {checkpoint.checkpoint_id for checkpoint in relied_on if not is_good(checkpoint)}
        if not damaged:
            return kept
        good = [checkpoint for checkpoint in good if checkpoint.checkpoint_id not in damaged]


class Inspection:
    """Verifies each checkpoint at most once, in its storage."""

    def __init__(self, storage_for: Callable[[Candidate], CheckpointStorage]) -> None:
        self._storage_for = storage_for
        self._good: dict[str, bool] = {}

    def is_good(self, checkpoint: Candidate) -> bool:
        """Return whether the files of a checkpoint are complete; each is checked once."""
        if checkpoint.checkpoint_id not in self._good:
            try:
                verify(self._storage_for(checkpoint), checkpoint)
                self._good[checkpoint.checkpoint_id] = True
            except (InvalidCheckpointException, CheckpointNotFound) as error:
                logger.warning(
                    "a damaged or missing checkpoint is not counted by the retention policy of trial %s: %s",
                    checkpoint.trial,
                    error,
                )
                self._good[checkpoint.checkpoint_id] = False
        return self._good[checkpoint.checkpoint_id]

    def damaged(self) -> tuple[str, ...]:
        """Return the ids of the checkpoints that were found damaged."""
        return tuple(name for name, good in self._good.items() if not good)


def verify(storage: CheckpointStorage, checkpoint: Candidate) -> None:
    """Raise InvalidCheckpointException unless every file matches the recorded sizes and the manifest.

    At least one of the two must exist.
    """
    if checkpoint.resources is not None:
        # Sizes first, because they are compared without reading the files.
        present = storage.resources(checkpoint.checkpoint_id)
        for name, size in checkpoint.resources.items():
            if present.get(name) != size:
                found = f"has {present[name]} bytes instead of {size}" if name in present else "is missing"
                raise InvalidCheckpointException(f"checkpoint {checkpoint.checkpoint_id} is damaged: {name} {found}")
    with storage.open(checkpoint.checkpoint_id) as directory:
        if manifest.exists(directory) or checkpoint.resources is None:
            manifest.verify(directory, checkpoint.checkpoint_id)


def _best_first(checkpoints: Iterable[Candidate], policy: Policy) -> list[Candidate]:
    """Return the checkpoints with a comparable metric, best first.

    Of equal ones that of the oldest trial comes first, as in every list, so that the checkpoint of the trial that is
    shown as the best one is kept.
    """
    return best_first(
        checkpoints,
        lambda checkpoint: checkpoint.metric,
        lambda checkpoint: (checkpoint.trial, checkpoint.validated),
        smaller_is_better=policy.smaller_is_better,
    )


def _newest_first(checkpoints: Sequence[Candidate], trial: int) -> list[Candidate]:
    """Return the checkpoints of a trial, most steps first; at the same step the one stored later comes first."""
    # With the place, because candidates themselves cannot be compared.
    own = [(c.steps, place, c) for place, c in enumerate(checkpoints) if c.trial == trial]
    return [checkpoint for _, _, checkpoint in sorted(own, key=lambda entry: entry[:2], reverse=True)]
