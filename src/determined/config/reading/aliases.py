"""Alternative names of the same quantity: which fields of a configuration a newly given field replaces.

A file may use the names of an old release and the command line the current ones, or vice versa. Both at once would
contradict each other, so the field that is given later replaces the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from determined.config.blocks.searcher import searcher_model

# Fields that counted training in steps, up to release 0.12 -> the current field.
STEP_FIELDS = {
    "max_steps": "max_length",
    "target_trial_steps": "max_length",
    "step_budget": "budget",
    "steps_per_round": "length_per_round",
}
# A search by rungs derives these two from the training length unless they are given.
_DERIVED_FROM_LENGTH = frozenset({"max_time", "time_metric"})
# Blocks with a value for each kind of device; `cuda` was called `gpu` up to release 0.17.5.
_BY_DEVICE = (("environment", "image"), ("environment", "environment_variables"))


def without_replaced(path: tuple[str, ...], block: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block at `path` without the fields that those in `given` replace.

    A field that is null replaces nothing.
    """
    names = {name for name, value in given.items() if value is not None}
    replaced = {other for name in names for other in _replaced_by(path, block, name)} - names
    return {name: value for name, value in block.items() if name not in replaced}


def replaceable_blocks() -> tuple[tuple[str, ...], ...]:
    """Return the paths of the blocks in which one field can replace another."""
    return (("searcher",), *_BY_DEVICE)


def _replaced_by(path: tuple[str, ...], block: dict[str, Any], name: str) -> set[str]:
    """Return the names of the fields that this field replaces."""
    if path in _BY_DEVICE:
        return {"gpu": {"cuda"}, "cuda": {"gpu"}}.get(name, set())
    if path != ("searcher",):
        return set()
    if name == "source_checkpoint_uuid":
        return {"source_trial_id"}  # would otherwise take precedence over the given checkpoint
    meaning = STEP_FIELDS.get(name, name)
    same = {meaning, *(old for old, new in STEP_FIELDS.items() if new == meaning)} - {name}
    if meaning == "max_length":
        method = searcher_model(block.get("name"))
        return same | _DERIVED_FROM_LENGTH if method is None or method.time_follows_length else same
    return same if meaning in STEP_FIELDS.values() else set()
