"""The random stream is the one from which published studies were drawn."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.random_stream import RandomStream
from determined.searchers.sources import RandomSource

SPACE = {
    "dropout": {"type": "double", "minval": 0.2, "maxval": 0.8},
    "global_batch_size": 64,
    "lr": {"type": "log", "base": 10, "minval": -4, "maxval": 0},
    "n_filters": {"type": "int", "minval": 8, "maxval": 64},
    "opt": {"type": "categorical", "vals": ["sgd", "adam", "rmsprop"]},
}
VECTORS = {
    42: [
        (0.42472407130841755, 0.6351221010640693, 50, "sgd", 429389014),
        (0.23485016730091968, 0.29154431891537524, 43, "rmsprop", 1427830251),
        (0.7631316254094502, 0.00010071984838809192, 28, "sgd", 1855189739),
    ],
    0: [
        (0.5292881023563949, 0.07257005721594274, 11, "adam", 1277901399),
        (0.735063800469248, 0.7155682161754858, 9, "rmsprop", 1686997841),
    ],
}


@pytest.mark.parametrize("seed", VECTORS)
def test_the_trials_of_a_seed(seed: int) -> None:
    source = RandomSource(dict(reversed(SPACE.items())), seed)  # in whatever order the space is written
    for number, (dropout, lr, n_filters, opt, trial_seed) in enumerate(VECTORS[seed]):
        drawn = source.draw(number)
        expected = {"dropout": dropout, "global_batch_size": 64, "lr": lr, "n_filters": n_filters, "opt": opt}
        assert drawn.hparams == expected
        assert drawn.seed == trial_seed


def test_request_ids_are_uuids_of_the_stream() -> None:
    words = np.random.RandomState(7).bytes(16)
    drawn = bytes.fromhex(RandomStream(7).uuid().replace("-", ""))
    assert [a == b for a, b in zip(words, drawn, strict=True)].count(False) <= 2  # the version's and the variant's bits
    assert (drawn[6] >> 4, drawn[8] >> 6) == (4, 2)


@given(st.integers(0, 2**32 - 1))
def test_random_words_are_those_of_numpys_legacy_generator(seed: int) -> None:
    ours, theirs = RandomStream(seed), np.random.RandomState(seed)
    assert [ours.word() for _ in range(5)] == np.frombuffer(theirs.bytes(20), "<u4").tolist()
    assert [ours.unit() for _ in range(3)] == theirs.random_sample(3).tolist()


@given(st.integers(0, 2**70), st.integers(0, 1000))
def test_integers_stay_in_their_bounds_and_a_state_continues(largest: int, before: int) -> None:
    stream = RandomStream(3)
    for _ in range(before):
        stream.word()
    other = RandomStream(0)
    other.restore(json.loads(json.dumps(stream.state())))
    drawn = [stream.integer(largest) for _ in range(3)]
    assert drawn == [other.integer(largest) for _ in range(3)]
    assert all(0 <= value <= largest for value in drawn)


def test_nothing_is_drawn_for_what_has_one_value() -> None:
    stream = RandomStream(1)
    before = stream.state()
    one: dict[str, Any] = {"a": 1, "b": {"type": "const", "val": None}, "c": {"type": "categorical", "vals": ["x"]}}
    assert sample_hyperparameters(one, stream) == {"a": 1, "b": None, "c": "x"}
    assert stream.state() == before


def test_nested_groups_are_drawn_in_sorted_order() -> None:
    unit = {"type": "double", "minval": 0, "maxval": 1}
    one = sample_hyperparameters({"g": {"a": unit, "b": {"c": unit, "d": unit}}, "z": unit}, RandomStream(5))
    other = sample_hyperparameters({"z": unit, "g": {"b": {"d": unit, "c": unit}, "a": unit}}, RandomStream(5))
    assert one == other
    assert [one["g"]["a"], one["g"]["b"]["c"], one["g"]["b"]["d"], one["z"]] == (
        np.random.RandomState(5).random_sample(4).tolist()
    )


def test_loguniform_is_written_with_values() -> None:
    space = {"lr": {"type": "loguniform", "min": 1e-4, "max": 1}}
    drawn = [sample_hyperparameters(space, RandomStream(seed))["lr"] for seed in range(200)]
    assert 1e-4 <= min(drawn) < 1e-3
    assert 0.1 < max(drawn) <= 1
    exponents = {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": 0}}
    assert drawn[3] == pytest.approx(sample_hyperparameters(exponents, RandomStream(3))["lr"])
