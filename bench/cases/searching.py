"""Searches: short trials a second, the cost of one besides its objective, and the time until a training begins."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.measure import Effort, in_child
from bench.table import Row

MODELS = Path(__file__).parents[1] / "models"
TRIALS, SLOTS = 64, 2
MUST_BE_A_SECOND, MOST_CPU = 20.0, 0.030
MOST_TO_FIRST_BATCH = 0.15


def searching(effort: Effort) -> list[Row]:
    """Each trial is a separate process, everything is stored; from the first decision to the last trial's end."""
    found = [_in_child("bench.cases.searching:search") for _ in range(max(1, min(3, effort.starts)))]
    rate = statistics.median(one["rate"] for one in found)
    cpu = statistics.median(one["cpu"] for one in found)
    first = statistics.median(_in_child("bench.cases.searching:first_batches"))
    return [
        Row(
            f"{TRIALS} trials of 50 ms under ASHA on {SLOTS} slots",
            "determined",
            us=1e6 / rate,
            must_be=f">= {MUST_BE_A_SECOND:g}/s",
            ok=rate >= MUST_BE_A_SECOND,
            note=f"{rate:.1f} trials/s, each its own process",
            detail={"runs": found},
        ),
        Row(
            "CPU of a trial beside its objective",
            "determined",
            us=cpu * 1e6,
            must_be=f"<= {MOST_CPU * 1000:g} ms",
            ok=cpu <= MOST_CPU,
            note="runner, warm process and trial",
        ),
        Row(
            "first batch after its trial was decided",
            "determined",
            us=first * 1e6,
            must_be=f"<= {MOST_TO_FIRST_BATCH:g} s",
            ok=first <= MOST_TO_FIRST_BATCH,
            note="a PyTorchTrial; torch is not imported again",
        ),
    ]


def _in_child(function: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        return in_child(function, {}, environment={"XDG_DATA_HOME": directory})


def search() -> dict[str, float]:
    """Return the trials a second, and the CPU seconds of each."""
    searcher = {
        "name": "async_halving",
        "metric": "loss",
        "time_metric": "batches",
        "max_time": 5,
        "num_rungs": 2,
        "max_trials": TRIALS,
    }
    with prepared("python3 objective.py", searcher, {"rate": {"type": "double", "minval": 0, "maxval": 1}}) as run:
        before, began = _cpu(), time.monotonic()
        run()
        seconds, used = time.monotonic() - began, _cpu() - before
    return {"rate": TRIALS / seconds, "cpu": used / TRIALS}


def first_batches() -> list[float]:
    """Return the seconds from a trial's row to its first batch, for each trial on one slot."""
    from determined.store.open import open_store

    searcher = {"name": "random", "metric": "validation_loss", "max_trials": 8, "max_length": {"batches": 2}}
    with tempfile.TemporaryDirectory() as place:
        hparams = {"global_batch_size": 4, "place": place}
        searcher["max_concurrent_trials"] = 1  # decided when the previous one has ended
        with prepared("first_batch:FirstBatchTrial", searcher, hparams) as run:
            run()
        store = open_store()
        trials = store.experiments.trials(1)
        store.close()
        return [float((Path(place) / str(trial.id)).read_text()) - trial.created for trial in trials[1:]]


@contextmanager
def prepared(
    entrypoint: str, searcher: dict[str, Any], hyperparameters: dict[str, Any]
) -> Iterator[Callable[[], object]]:
    """Prepare an experiment to be run, and a warm engine."""
    from determined.config.experiment import load_experiment
    from determined.engines.local import LocalEngine
    from determined.experiment.creation.create import create_experiment
    from determined.experiment.runner.run import run_experiment
    from determined.store.open import checked_place, open_store

    loaded = load_experiment(
        {"entrypoint": entrypoint, "searcher": searcher, "hyperparameters": hyperparameters, "name": "bench"}
    )
    with LocalEngine(SLOTS) as engine:
        store = open_store()
        created = create_experiment(loaded, MODELS, store, engine=engine)
        store.close()
        _warm_up(engine)
        yield lambda: run_experiment(checked_place(), created.experiment_id, engine=engine)


def _warm_up(engine: Any) -> None:
    """Wait until the engine has imported everything: a first job has run."""
    from determined.engines.base import Exited, Job
    from determined.engines.command import Module

    engine.start(Job("warm-up", Module(("this",)), {}, MODELS, 1))
    while not any(isinstance(event, Exited) for event in engine.events(1.0)):
        pass


def _cpu() -> float:
    """Return the CPU time of this process and of all that it started, including ended ones."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    below = [child.cpu_times() for child in psutil.Process().children()]
    started = sum(t.user + t.system + t.children_user + t.children_system for t in below)
    return float(own.ru_utime + own.ru_stime + started)
