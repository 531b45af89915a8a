"""Secrets among the hyperparameters of a search: not stored, but used for training."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.random_stream import RandomStream
from determined.config.secrets.fixed_secrets import mask_fixed, unmask_fixed
from determined.config.secrets.masking import MASK

SPACE: dict[str, Any] = {
    "api_token": "hunter2-hunter2",
    "data": {"url": "postgres://me:pw12345@host/db", "secrets": {"a": {"type": "const", "val": "below-secrets"}}},
    "lr": {"type": "double", "minval": 0.1, "maxval": 1.0},
    "eos_token": {"type": "categorical", "vals": ["<eos>", "</s>"]},
    "layers": [8, 8],
}


def test_fixed_secrets_are_masked_and_searched_values_stay() -> None:
    drawn = sample_hyperparameters(SPACE, RandomStream(1))
    stored = mask_fixed(drawn, SPACE)
    text = json.dumps(stored)
    assert not any(secret in text for secret in ("hunter2", "pw12345", "below-secrets"))
    assert stored["api_token"] == MASK
    assert (stored["lr"], stored["eos_token"], stored["layers"]) == (drawn["lr"], drawn["eos_token"], [8, 8])
    assert unmask_fixed(stored, SPACE) == drawn


NAMES = st.sampled_from(["token", "lr", "db_password", "url", "secrets", "net"])
VALUES = st.sampled_from([1, 0.5, None, "word", "http://me:pw@host", "API_KEY=abc", MASK, ["a", "http://u:p@h"]])
RANGES = st.sampled_from(
    [{"type": "int", "minval": 0, "maxval": 9}, {"type": "categorical", "vals": ["x", "http://me:pw@host"]}]
)
SPACES = st.dictionaries(
    NAMES, st.recursive(VALUES | RANGES, lambda inner: st.dictionaries(NAMES, inner, min_size=1), max_leaves=6)
)


@given(space=SPACES, seed=st.integers(0, 9))
def test_what_a_trial_trains_with_is_found_again(space: dict[str, Any], seed: int) -> None:
    drawn = sample_hyperparameters(space, RandomStream(seed))
    stored = json.loads(json.dumps(mask_fixed(drawn, space)))
    assert unmask_fixed(stored, space) == drawn
