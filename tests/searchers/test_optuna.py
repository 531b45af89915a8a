"""Optuna's samplers as a source of trials."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from determined.config.hyperparameters import leaves
from determined.errors import InvalidConfigurationException, MissingExtraError
from determined.searchers.base import Create, Exited, Validated
from determined.searchers.simulate import Behaviour, simulate
from tests.searchers.methods import SPACE, config, copied, make, metric_of, plain


@pytest.mark.parametrize("halving", [False, True], ids=["to the end", "halving"])
@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("tpe", {"n_startup_trials": 4}),
        ("random", {}),
        ("cmaes", {}),
        ("CmaEsSampler", {"n_startup_trials": 3}),
        ("nsgaii", {"population_size": 4}),
        ("nsga-iii", {"population_size": 4}),
        ("qmc", {}),
    ],
)
def test_any_sampler_proposes_and_continues_after_a_restart(
    sampler: str, options: dict[str, Any], halving: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "optuna, halving" if halving else "optuna"

    def fresh() -> Any:
        return make(name, seed=3, sampler=sampler, sampler_options=options)

    searcher = fresh()
    twin = fresh()

    def follow(event: Any, actions: Any) -> None:
        nonlocal twin
        expected = twin.start() if event is None else twin.on_event(event)
        assert plain(actions) == plain(expected)
        if isinstance(event, Exited):
            twin = copied(twin, fresh)

    trace = simulate(
        searcher,
        lambda c: Behaviour(lambda t: metric_of(c) + 1 / t, ends_at=70, validates_every=9),
        slots=2,
        watch=follow,
    )
    assert len(trace.decisions) == 12
    for create in (actions[0] for actions in trace.decisions.values()):
        assert isinstance(create, Create)
        assert 1e-4 <= create.hparams["lr"] <= 1
        assert create.hparams["kind"] in ("a", [1, 2], None)
        assert [path for path, _ in leaves(create.hparams)] == [path for path, _ in leaves(SPACE)]
    assert "study" not in capfd.readouterr().err


def test_gaussian_processes_too() -> None:
    searcher = make("optuna", sampler="gp", sampler_options={"n_startup_trials": 2}, max_trials=4)
    simulate(searcher, lambda c: Behaviour(lambda t: metric_of(c), ends_at=9, validates_every=3), slots=1)
    assert searcher.finished


def test_it_learns() -> None:
    """Later proposals are better than the first ones, which are random."""
    for direction in (1, -1):
        levels: list[float] = []

        def behave(create: Create, direction: int = direction, levels: list[float] = levels) -> Behaviour:
            levels.append(metric_of(create))
            return Behaviour(lambda time: direction * levels[create.number], ends_at=9, validates_every=3)

        searcher = make("optuna", max_trials=60, max_concurrent_trials=1, smaller_is_better=direction == 1, seed=5)
        simulate(searcher, behave, slots=1)
        assert sum(levels[40:]) / 20 < 0.4 * sum(levels[:10]) / 10


def test_the_results_of_trials_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = make("optuna, halving", max_trials=6, max_concurrent_trials=6)
    study = searcher._source._study  # type: ignore[attr-defined]
    searcher.start()
    searcher.on_event(Validated(0, 0.5, 16))
    searcher.on_event(Validated(0, 0.4, 64))
    searcher.on_event(Validated(1, 0.9, 16))
    searcher.on_event(Validated(2, float("nan"), 16))
    for number, reason in enumerate(["completed", "completed", "completed", "errored", "invalid_hp"]):
        searcher.on_event(Exited(number, reason))  # type: ignore[arg-type]
    told = [(trial.state.name, trial.value) for trial in study.trials[:6]]
    assert told == [
        ("COMPLETE", 0.4),
        ("PRUNED", 0.9),
        ("FAIL", None),
        ("FAIL", None),
        ("FAIL", None),
        ("RUNNING", None),
    ]
    assert study.trials[1].intermediate_values == {16: 0.9}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampler": "tpi"}, r"searcher.sampler: expected one of cmaes, gp, .*tpe, got 'tpi'"),
        ({"sampler": "grid"}, "searcher.sampler"),
        ({"sampler_options": {"startup": 3}}, r"searcher.sampler_options: TPESampler .*startup"),
    ],
)
def test_bad_samplers_are_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfigurationException, match=words):
        make("optuna", **changes)


def test_another_optuna_that_proposes_otherwise_is_named() -> None:
    searcher = make("optuna")
    searcher.start()
    state = json.loads(json.dumps(searcher.state()))
    state["source"]["optuna"] = "4.0.0"
    state["source"]["record"][1][2]['["lr"]'] = 0.5
    with pytest.raises(InvalidConfigurationException, match=r"started with Optuna 4\.0\.0.*trial 1"):
        make("optuna").restore(state)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"determined-pytorch\[optuna\]"):
        make("optuna")


def test_its_own_logging_is_left_as_it_was() -> None:
    import optuna

    optuna.logging.set_verbosity(logging.ERROR)
    make("optuna").start()
    assert optuna.logging.get_verbosity() == logging.ERROR
    optuna.logging.set_verbosity(logging.INFO)
    assert config("optuna").sampler == "tpe"
