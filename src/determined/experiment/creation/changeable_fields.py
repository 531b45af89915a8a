"""Decide which settings of a configuration can still change once trials exist. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from determined.config.derive import derive
from determined.config.experiment import ExperimentConfig
from determined.config.hyperparameters import Const, leaves, nest
from determined.config.length import Length, read_length
from determined.config.registry.search_methods import SearchMethod, search_method
from determined.config.secrets.masked_settings import masked_settings
from determined.config.storage_directory import RETENTION
from determined.errors import InvalidExperimentConfig, Mistake

Config = dict[str, Any]

_OF_THE_ROW = "det experiment set changes it, at any time"
_FIXED = {
    "name": _OF_THE_ROW,
    "description": _OF_THE_ROW,
    "labels": "det experiment label changes them, at any time",
    "reproducibility": "the trials that exist were made with it",
    "checkpoint_storage": "the checkpoints that exist lie in the present one",
    "searcher": "the trials that exist were made, and compared, by it; det experiment fork --config changes it",
}


def changed_paths(before: Config, after: Config) -> list[str]:
    """Return the dotted names of the settings that differ."""
    return list(_differences(before, after, ()))


def refuse_another_method(before: ExperimentConfig, changes: Config) -> None:
    """Raise InvalidExperimentConfig if the search method changes.

    Checked first: other searcher settings depend on it.
    """
    searcher = changes.get("searcher")
    present = before.searcher.name
    if isinstance(searcher, dict) and searcher.get("name", present) != present:
        raise InvalidExperimentConfig(
            [Mistake("searcher.name", None, f"it cannot be changed any more: {_FIXED['searcher']}")]
        )


def refuse_fixed_settings(before: ExperimentConfig, after: ExperimentConfig, changed: Sequence[str]) -> None:
    """Raise `InvalidExperimentConfig` with every setting that cannot change, each with the reason.

    A secret that was masked by an export must be set again, so it can always change.
    """
    masked = masked_settings(before.plain()).settings
    mistakes = [
        Mistake(path, None, reason)
        for path in changed
        if not any(name == path or name.startswith(f"{path}.") for name in masked)
        and (reason := _reason_for_refusal(path, before, after))
    ]
    if mistakes:
        raise InvalidExperimentConfig(mistakes)


def new_hparams(
    before: ExperimentConfig, after: ExperimentConfig, changed: Sequence[str]
) -> Callable[[Config], Config] | None:
    """Return a function that applies changed constants to the only trial's hyperparameters; None if none changed."""
    if not any(path.startswith("hyperparameters.") for path in changed):
        return None
    old = dict(leaves(before.hyperparameters))
    given = {
        path: leaf.value
        for path, leaf in leaves(after.hyperparameters)
        if isinstance(leaf, Const) and old.get(path) != leaf
    }
    changes = {"hyperparameters": nest(list(given.items()))}
    # Only the given leaves change; hyperparameters that the search has drawn are kept.
    return lambda hparams: dict(derive({"hyperparameters": hparams}, changes)["hyperparameters"])


def _reason_for_refusal(path: str, before: ExperimentConfig, after: ExperimentConfig) -> str | None:
    """Return why a setting cannot change, or None if it can."""
    block, _, rest = path.partition(".")
    method = search_method(before.searcher.name)
    if block == "hyperparameters":
        return _reason_for_hyperparameter(path, method, after)
    # The number of trials can be raised, and retention applies to checkpoints whenever they are cleaned up.
    if path == "searcher.max_trials" or (block == "checkpoint_storage" and rest in RETENTION):
        return None
    # Methods that compare trials have fixed their rungs by the length.
    if rest.partition(".")[0] == "max_length" and block == "searcher" and not method.compares_trials:
        return _shorter(before.searcher.max_length, after.searcher.max_length)
    reason = _FIXED.get(block)
    return None if reason is None else f"it cannot be changed any more: {reason}"


def _reason_for_hyperparameter(path: str, method: SearchMethod, after: ExperimentConfig) -> str | None:
    """Return why a hyperparameter cannot be changed, or None if it can."""
    if not method.one_trial:
        reason = "the hyperparameters of the trials that exist were drawn from the space"
        return f"it cannot be changed any more: {reason}; det experiment fork --config changes it"
    names = tuple(path.split(".")[1:])
    for known, leaf in leaves(after.hyperparameters):
        if names[: len(known)] == known and not isinstance(leaf, Const):
            return "expected a constant: the trial continues with this value, nothing is drawn again"
    return None


def _shorter(old: Length | None, new: Length | None) -> str | None:
    """Return an error text if the new length is smaller than the present one, or None."""
    if old is None or new is None or old.unit != new.unit or new.value >= old.value:
        return None
    return f"expected at least the present {old.value}, got {new.value}: what was trained stays trained"


def _differences(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the dotted names of the settings that differ."""
    if not isinstance(before, dict) or not isinstance(after, dict) or _are_compared_as_a_whole(before, after):
        # Also by type: 1, 1.0 and True are equal in Python, and not the same setting.
        if before != after or type(before) is not type(after):
            yield ".".join(path)
        return
    for name in dict.fromkeys([*before, *after]):
        yield from _differences(before.get(name), after.get(name), (*path, name))


def _are_compared_as_a_whole(old: Config, new: Config) -> bool:
    """Return whether two maps are compared as a whole: two lengths, or maps of different types."""
    lengths = read_length(old) is not None and read_length(new) is not None
    return lengths or ("type" in old and "type" in new and old["type"] != new["type"])
