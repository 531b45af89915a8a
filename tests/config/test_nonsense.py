"""Any input as a configuration: it loads, or its mistakes are reported; never anything else, and soon."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from determined.config.dump import dump_yaml
from determined.config.experiment import ExperimentConfig, LoadedExperiment, load_experiment
from determined.config.plain_data import copy_plain
from determined.config.reading.catalog import catalog
from determined.config.reading.load import parse_yaml
from determined.config.secrets.masked_text import mask_yaml
from determined.config.secrets.masking import mask_secrets
from determined.errors import InvalidConfigurationException, InvalidExperimentConfig
from tests.config.test_experiment_fields import (
    ADAPTIVE,
    FIELDS,
    GRID,
    HALVING,
    MINIMAL,
    PBT,
    RANDOM,
    TIMED_OPTUNA,
    with_value,
)

NAMES = sorted({name for names in catalog(ExperimentConfig).values() for name in names})
OLD_NAMES = ["batches_per_step", "records_per_epoch", "max_steps", "target_trial_steps", "step_budget", "budget", "gpu"]
WORDS = [
    *("single", "random", "grid", "async_halving", "adaptive_asha", "pbt", "optuna", "adaptive", "sync_halving"),
    *("const", "int", "double", "log", "loguniform", "categorical", "s3", "shared_fs", "directory", "best", "O1"),
    *("a:B", "/data", "x", "", "NAME=1", "aggressive"),
]
SINGLES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2000),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=8),
)
KEYS = st.one_of(
    st.sampled_from(
        [*NAMES, *OLD_NAMES, "type", "minval", "maxval", "base", "vals", "val", "count", "batches", "epochs"]
    ),
    st.text(max_size=6),
)
VALUES = st.recursive(
    SINGLES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=10,
)
LEAVES = st.fixed_dictionaries(
    {"type": st.sampled_from(["const", "int", "double", "log", "loguniform", "categorical", "x"])},
    optional=dict.fromkeys(("minval", "maxval", "min", "max", "base", "count", "val"), SINGLES) | {"vals": VALUES},
)
SEARCHERS = st.fixed_dictionaries(
    {"name": st.sampled_from(WORDS[:9]), "metric": st.just("loss")},
    optional={
        name: st.one_of(st.integers(-1, 50), SINGLES, st.dictionaries(st.sampled_from(["batches", "epochs"]), SINGLES))
        for name in [
            *OLD_NAMES,
            "max_length",
            "max_time",
            "max_trials",
            "num_rungs",
            "divisor",
            "bracket_rungs",
            "mode",
        ]
    },
)
TOP = [name for name in ExperimentConfig.model_fields if name not in ("searcher", "entrypoint", "hyperparameters")]
CONFIGS = st.builds(
    lambda searcher, space, rest: {"entrypoint": "a:B", "searcher": searcher, "hyperparameters": space, **rest},
    st.one_of(SEARCHERS, VALUES),
    st.one_of(VALUES, st.dictionaries(st.text(max_size=3), LEAVES, max_size=3)),
    st.dictionaries(st.sampled_from([*TOP, "batches_per_step"]), VALUES, max_size=2),
)


def load(source: Any, **options: Any) -> InvalidExperimentConfig | LoadedExperiment:
    try:
        return load_experiment(source, **options)
    except InvalidExperimentConfig as error:
        return error


def loads_or_reports(source: Any, **options: Any) -> None:
    result = load(source, **options)
    if isinstance(result, InvalidExperimentConfig):
        assert result.mistakes
        assert str(result).encode()
        assert "Input should" not in str(result), "these are not our words"
        return
    plain = result.config.plain()
    assert load_experiment(json.loads(json.dumps(plain, allow_nan=False))).config == result.config
    assert load_experiment(result.original).config == result.config


@settings(max_examples=100)
@given(CONFIGS)
def test_a_configuration_of_nonsense(config: dict[str, Any]) -> None:
    loads_or_reports(config)


@settings(max_examples=100)
@given(SEARCHERS, st.dictionaries(st.text(max_size=3), LEAVES, max_size=2))
def test_any_searcher_and_space(searcher: dict[str, Any], space: dict[str, Any]) -> None:
    loads_or_reports({"entrypoint": "a:B", "searcher": searcher, "hyperparameters": space})


GOOD = st.lists(
    st.sampled_from([field for field in FIELDS if field[1] is MINIMAL]), max_size=8, unique_by=lambda f: f[0]
)


@settings(max_examples=60)
@given(st.sampled_from([MINIMAL, RANDOM, GRID, HALVING, ADAPTIVE, PBT, TIMED_OPTUNA]), GOOD, st.randoms())
def test_good_values_together(base: dict[str, Any], fields: list[Any], random: Random) -> None:
    config = base
    for path, _, _, values in fields:
        config = with_value(path, random.choice(values), config)
    loads_or_reports(config)


@settings(max_examples=100)
@given(st.one_of(VALUES, st.dictionaries(st.one_of(SINGLES, KEYS), VALUES)))
def test_any_value(value: Any) -> None:
    if not isinstance(value, str):
        loads_or_reports(value)


@settings(max_examples=80)
@given(
    st.one_of(
        st.text(), st.text("ab:-[]{}&*!|>'\"#%@`,? \n\t0\\"), st.binary().map(lambda data: data.decode("latin-1"))
    )
)
def test_any_text(text: str) -> None:
    loads_or_reports(f"{text}\n")
    loads_or_reports("entrypoint: a:B\nsearcher: {name: single, metric: x}\n", overrides=[text, f"name={text}"])


@settings(max_examples=50)
@given(st.dictionaries(st.one_of(KEYS, st.sampled_from(["secrets", "api_key"])), VALUES, max_size=4))
def test_yaml_that_we_write_reads_as_itself(data: dict[str, Any]) -> None:
    data, mistakes = copy_plain(data)
    if mistakes:
        return
    text = dump_yaml(data)
    assert parse_yaml("x", text) == data
    masked = mask_secrets(data)
    assert mask_secrets(parse_yaml("x", mask_yaml(text))) == masked


@settings(max_examples=100)
@given(st.text())
def test_masking_any_text_fails_only_on_bad_yaml(text: str) -> None:
    try:
        parse_yaml("x", f"{text}\n")
    except InvalidConfigurationException:
        return
    mask_yaml(f"{text}\n")


@pytest.mark.timeout(60)  # an algorithm that is quadratic in the input would take hours
def test_mistakes_in_large_inputs_are_reported_soon() -> None:
    sources: tuple[dict[str, Any], ...] = (
        {"entrypoint": "a:B", **{f"unknown_{number}": 1 for number in range(5_000)}},
        {"hyperparameters": {f"p{number}": {"type": "int"} for number in range(5_000)}},
        {"k" * 200_000: 1},
        {"entrypoint": "A" * 200_000},
        {"entrypoint": "a." * 100_000},
        {"resources": {"shm_size": "1" * 200_000}},
        {"environment": {"environment_variables": ["=" * 200_000]}},
        {"labels": [0] * 20_000},
        {"data": [[]] * 201_000},
    )
    for source in sources:
        error = load(source)
        assert isinstance(error, InvalidExperimentConfig)
        assert len(error.mistakes) <= 101
        assert len(str(error)) < 100_000
    mask_yaml("#" * 50_000 + "\na: 1\n")
