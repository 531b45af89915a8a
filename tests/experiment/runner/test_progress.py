"""The progress of a search: the figure that is shown and stored."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from determined.experiment.runner.runner_state import RunnerState
from determined.searchers.simulate import Behaviour, simulate
from tests.searchers.methods import make


def running(searcher: Any, least: float = 0.0) -> RunnerState:
    parts = dict.fromkeys(
        (
            "experiment",
            "settings",
            "files",
            "lease",
            "engine",
            "writer",
            "logs",
            "checkpoints",
            "effective_hparams",
            "planned",
        )
    )
    search = SimpleNamespace(searcher=searcher)
    return RunnerState(
        **cast("dict[str, Any]", parts), search=cast("Any", search), store_place="", least_progress=least
    )


@pytest.mark.parametrize("method", ["adaptive_asha", "async_halving"])
def test_it_never_decreases(method: str) -> None:
    """The estimate of a searcher does decrease: a promoted trial has more left to train than was expected."""
    decreased = 0
    for seed in range(5):
        searcher = make(method, seed=seed)
        run = running(searcher)
        estimated: list[float] = []
        shown: list[float] = []

        def watch(
            event: object,
            actions: object,
            searcher: Any = searcher,
            run: RunnerState = run,
            estimated: list[float] = estimated,
            shown: list[float] = shown,
        ) -> None:
            estimated.append(searcher.progress({}))
            shown.append(run.progress())

        simulate(searcher, lambda create: Behaviour(lambda time: create.hparams["lr"]), slots=2, watch=watch)
        decreased += any(after < before for before, after in pairwise(estimated))
        assert all(before <= after <= 1.0 for before, after in pairwise(shown))
        assert shown[-1] > 0.5
    assert decreased > 0, "no estimate decreased: the test shows nothing"


def test_progress_continues_from_the_stored_value() -> None:
    searcher = make("adaptive_asha")
    searcher.start()
    assert searcher.progress({}) == 0.0
    assert running(searcher, 0.75).progress() == 0.75
