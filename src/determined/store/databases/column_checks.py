"""Checks of column contents that the column type does not cover: enumerated words, and JSON of a certain shape."""

from __future__ import annotations

import json
from typing import Any, Literal, get_args

from determined.stop_request import OF_USERS, TO_WORKERS
from determined.store.states import AttemptState, CheckpointState, ExperimentState, TrialState

Shape = Literal["map", "list", "texts", "numbers", "sizes", "maps by rank"]

JSON_COLUMNS: dict[tuple[str, str], Shape] = {
    ("experiments", "config"): "map",
    ("experiments", "labels"): "texts",
    ("trials", "hparams"): "map",
    ("trials", "metadata"): "map",
    ("trials", "nodes"): "texts",
    ("trials", "passed_hparams"): "map",
    ("trials", "rank_metadata"): "maps by rank",
    ("trials", "rungs"): "numbers",
    ("metrics", "body"): "map",
    ("overwritten_metrics", "body"): "map",
    ("samples", "body"): "map",
    ("checkpoints", "metadata"): "map",
    ("checkpoints", "resources"): "sizes",
    ("uploads", "files"): "sizes",
    ("journal", "event"): "map",
    ("journal", "actions"): "list",
    ("snapshots", "body"): "map",
    ("models", "labels"): "texts",
    ("models", "metadata"): "map",
    ("model_versions", "labels"): "texts",
    ("model_versions", "metadata"): "map",
}
# The words that a column may contain.
WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("experiments", "state"): get_args(ExperimentState),
    ("trials", "state"): get_args(TrialState),
    ("attempts", "state"): get_args(AttemptState),
    ("checkpoints", "state"): get_args(CheckpointState),
    ("requests", "kind"): TO_WORKERS,
    ("experiment_requests", "kind"): (*OF_USERS, "activate", "reconfigure"),
}

# Blocks of a configuration that readers index into without checking that they are maps.
_BLOCKS = ("searcher", "resources", "hyperparameters", "checkpoint_storage", "environment", "reproducibility")


def configuration_mistake(text: str) -> str | None:
    """Return what is wrong with the stored configuration of a search, or None.

    Only the mistakes that would make commands that read the configuration fail are checked.
    """
    # The caller has checked that the text is a JSON map.
    config = json.loads(text)
    for block in _BLOCKS:
        if not isinstance(config.get(block), dict) and (block == "searcher" or config.get(block) is not None):
            return f"has no map under {block}"
    return None


def shape_mistake(text: Any, shape: Shape) -> str | None:
    """Return what is wrong with the JSON text of a column, or None."""
    try:
        value = json.loads(text)
    # RecursionError: a nested value deeper than Python's stack, as a hostile export may contain.
    except (ValueError, TypeError, RecursionError):
        return "is not JSON"
    if shape == "list" and not isinstance(value, list):
        return "is no list"
    if shape == "texts" and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return "is no list of texts"
    # The exact types, because True and False are integers in Python.
    if shape == "numbers" and not (isinstance(value, list) and all(type(item) in (int, float) for item in value)):
        return "is no list of numbers"
    if shape in ("map", "sizes", "maps by rank") and not isinstance(value, dict):
        return "is no map"
    if shape == "sizes" and not all(type(size) is int and size >= 0 for size in value.values()):
        return "is no map of names to sizes"
    if shape == "maps by rank" and not all(rank.isdecimal() and isinstance(value[rank], dict) for rank in value):
        return "is no map of ranks to maps"
    return None
