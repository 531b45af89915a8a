"""Check whether the trials of a search train with the values that it assigns to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from determined.config.effective import clipped, value_text
from determined.config.hyperparameters import is_fixed, leaves
from determined.config.secrets.masking import mask_secrets

Path = tuple[str, ...]

_MOST_SHOWN = 5  # hyperparameters, so that the message stays short
_TRIALS_FOR_A_VERDICT = 3  # fewer may use the same value by chance


class SearchCheck:
    """Detects a search without effect, whose trials ignore the assigned values.

    Trials are checked in the order of their numbers, so that the verdict depends on their values only and not on which
    trial started first.
    """

    def __init__(self, space: dict[str, Any]) -> None:
        self._searched = searched_paths(space)
        self._varies = not self._searched
        self._point: dict[Path, str] | None = None  # the values that all trials so far have passed to init()
        self._assignments: list[tuple[int, dict[Path, str]]] = []  # distinct assignments, with the trial's id

    def take(self, trial_id: int, assigned: dict[str, Any], passed: dict[str, Any]) -> str | None:
        """Add the next trial; return a message once it is certain that trials ignore the searched values, else None."""
        if self._varies:
            return None
        point = _values(passed, self._searched)
        # A program that passes nothing, or another value than before, uses what it was assigned, or varies it itself.
        if not point or (self._point is not None and point != self._point):
            self._varies = True
            return None
        self._point = point
        assignment = _values(assigned, self._searched)
        # Trials with equal assignments prove nothing.
        if all(assignment != known for _, known in self._assignments):
            self._assignments.append((trial_id, assignment))
        return self._verdict(point)

    def _verdict(self, point: dict[Path, str]) -> str | None:
        """Return why the search is useless, once enough different assignments were ignored."""
        if len(self._assignments) < _TRIALS_FOR_A_VERDICT:
            return None
        # A value that was assigned to all of them may have been used: only an ignored value is a proof.
        ignored = [path for path in point if len({known.get(path) for _, known in self._assignments}) > 1]
        return _explanation(point, ignored, self._assignments) if ignored else None


def _explanation(point: dict[Path, str], ignored: list[Path], assignments: list[tuple[int, dict[Path, str]]]) -> str:
    """Return the message about values that programs use in place of the assigned ones."""
    lines = [
        f"{'.'.join(path)} = {clipped(point[path])} "
        f"(assigned: {', '.join(clipped(known.get(path, '')) for _, known in assignments)})"
        for path in ignored[:_MOST_SHOWN]
    ]
    lines += ["..."] if len(ignored) > _MOST_SHOWN else []
    trials = ", ".join(str(trial_id) for trial_id, _ in assignments)
    return (
        f"the search has no effect: trials {trials} trained with the same values: {'; '.join(lines)}. The program "
        "passes its own hparams to pytorch.init(), and these replace the values that the search assigns. Leave out "
        "hparams= (context.get_hparams() then returns the assigned values), or build it from "
        "determined.get_cluster_info().trial.hparams, and create the experiment again. Results of finished trials "
        "are kept"
    )


def searched_paths(space: dict[str, Any]) -> list[Path]:
    """Return the paths of the hyperparameters that a search varies: all with several possible values."""
    return [path for path, leaf in leaves(space) if not is_fixed(leaf)]


def _values(hparams: dict[str, Any], paths: Sequence[Path]) -> dict[Path, str]:
    """Return the hyperparameters at these paths, secrets masked, as comparable text; missing ones are left out."""
    masked, found = mask_secrets(hparams), dict[Path, str]()
    for path in paths:
        inner: Any = masked
        for name in path:
            if not isinstance(inner, dict) or name not in inner:
                break
            inner = inner[name]
        else:
            found[path] = value_text(inner)
    return found
