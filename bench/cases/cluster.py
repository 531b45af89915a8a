"""The same search on this machine, on a Ray cluster of two nodes, and with Ray Tune."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.cases.searching import MODELS, TRIALS
from bench.measure import Effort, in_child
from bench.table import Row, not_installed

CASE = f"{TRIALS} trials of 50 ms over two nodes"
OF_LOCAL, OF_TUNE_REUSED, OF_TUNE = 0.6, 5.0, 30.0
LATER = 0.1  # seconds
SEARCHER = {
    "name": "async_halving",
    "metric": "loss",
    "time_metric": "batches",
    "max_time": 5,
    "num_rungs": 2,
    "max_trials": TRIALS,
}
RATE = {"rate": {"type": "double", "minval": 0, "maxval": 1}}


def cluster(effort: Effort) -> list[Row]:
    """Trials a second: interleaved runs on one machine and on a cluster with as many slots, then Ray Tune."""
    if importlib.util.find_spec("ray") is None:
        return [not_installed(CASE, "ray")]
    from tests.ray.cluster import RayCluster

    rounds = max(1, min(3, effort.starts))
    with RayCluster(cpus=1) as ray:
        ray.add_node("127.0.0.3")
        pairs = [(_rate("local", ray), _rate(f"ray:{ray.address}", ray)) for _ in range(rounds)]
        ratio = statistics.median(own / local for local, own in pairs)
        own = statistics.median(rate for _, rate in pairs)
        rows = [
            Row(
                CASE,
                "determined on Ray",
                us=1e6 / own,
                ratio=ratio,
                must_be=f">= {OF_LOCAL:g} of local",
                ok=ratio >= OF_LOCAL,
                note=f"{own:.1f} trials/s",
                detail={"pairs": pairs},
            )
        ]
        rows.append(_first_batch_row(ray))
        if importlib.util.find_spec("pandas") is None or importlib.util.find_spec("pyarrow") is None:
            return [*rows, not_installed(CASE, "Ray Tune")]
        for reuse, limit in ((True, OF_TUNE_REUSED), (False, OF_TUNE)):
            trials = TRIALS if reuse else 8  # without reused actors a trial takes seconds
            rate = _in_child(ray, "bench.cases.cluster:tune", {"trials": trials, "reuse": reuse})
            rows.append(
                Row(
                    CASE,
                    f"Ray Tune, {'reused' if reuse else 'new'} actors",
                    us=1e6 / rate,
                    ratio=own / rate,
                    must_be=f"determined >= {limit:g} times",
                    ok=own / rate >= limit,
                    note=f"{rate:.2f} trials/s",
                )
            )
    return rows


def _first_batch_row(ray: Any) -> Row:
    """The time from the decision for a trial to its first batch, compared with the local engine."""
    found = {
        engine: _in_child(ray, "bench.cases.cluster:first_batches", {"engine": engine})
        for engine in ("local", f"ray:{ray.address}")
    }
    local, own = (statistics.median(times) for times in found.values())
    return Row(
        "first batch on a warm node",
        "determined on Ray",
        us=own * 1e6,
        ratio=own / local,
        must_be=f"<= {LATER * 1000:g} ms later",
        ok=own - local <= LATER,
        note=f"{(own - local) * 1000:.0f} ms later than with the local engine",
        detail=found,
    )


def _rate(engine: str, ray: Any) -> float:
    return float(_in_child(ray, "bench.cases.cluster:search", {"engine": engine}))


def _in_child(ray: Any, function: str, arguments: dict[str, Any]) -> Any:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        environment = {"XDG_DATA_HOME": directory, **ray.settings(), "RAY_ADDRESS": ray.address, "DET_SLOTS": "2"}
        return in_child(function, arguments, environment=environment)


def search(engine: str) -> float:
    """Return the trials a second of a search."""
    trials = _run(engine, "python3 objective.py", SEARCHER, RATE)
    return warm_rate([trial.ended for trial in trials if trial.ended is not None])


def warm_rate(ends: list[float]) -> float:
    """Return the trials a second from their ends, without the first eighth, which wait for the start of processes."""
    ends = sorted(ends)
    warm = len(ends) // 8
    return (len(ends) - 1 - warm) / (ends[-1] - ends[warm])


def first_batches(engine: str) -> list[float]:
    """Return the seconds from a trial's row to its first batch, for each trial; the first ones wait for imports on each
    node.
    """
    searcher = {
        "name": "random",
        "metric": "validation_loss",
        "max_trials": 12,
        "max_length": {"batches": 2},
        "max_concurrent_trials": 1,
    }
    with tempfile.TemporaryDirectory() as place:
        hparams = {"global_batch_size": 4, "place": place}
        trials = _run(engine, "first_batch:FirstBatchTrial", searcher, hparams)
        return [float((Path(place) / str(trial.id)).read_text()) - trial.created for trial in trials[4:]]


def _run(engine: str, entrypoint: str, searcher: dict[str, Any], hparams: dict[str, Any]) -> list[Any]:
    """Run an experiment to its end, and return its trials."""
    from determined.config.engine import parse_engine
    from determined.config.experiment import load_experiment
    from determined.experiment.creation.create import create_experiment
    from determined.experiment.runner.run import run_experiment
    from determined.store.open import checked_place, open_store

    with tempfile.TemporaryDirectory() as storage:
        config = {
            "name": "bench",
            "entrypoint": entrypoint,
            "searcher": searcher,
            "hyperparameters": hparams,
            "resources": {"engine": engine},
            "checkpoint_storage": {"type": "shared_fs", "host_path": storage},
        }
        store = open_store()
        created = create_experiment(load_experiment(config), MODELS, store)
        run_experiment(checked_place(), created.experiment_id, engine=parse_engine(engine, "bench"))
        trials = list(store.experiments.trials(created.experiment_id))
        store.close()
    return trials


def tune(trials: int, reuse: bool) -> float:
    """Return the trials a second of the same search with Ray Tune, in the form that it runs fastest: a function."""
    import ray
    from ray import tune as ray_tune
    from ray.tune.schedulers import ASHAScheduler

    def objective(config: dict[str, Any]) -> None:
        """Five steps of ten milliseconds. Tune stops the function while it reports."""
        for step in range(1, 6):
            time.sleep(0.01)
            ray_tune.report({"loss": config["rate"] / step})

    ends: list[float] = []

    class Ends(ray_tune.Callback):  # type: ignore[misc]
        """Records when each trial has ended."""

        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            ends.append(time.monotonic())

    ray.init(log_to_driver=False)
    halving = ASHAScheduler(metric="loss", mode="min", max_t=5, grace_period=1, reduction_factor=4)
    with tempfile.TemporaryDirectory() as directory:
        tuner = ray_tune.Tuner(
            objective,
            param_space={"rate": ray_tune.uniform(0, 1)},
            tune_config=ray_tune.TuneConfig(num_samples=trials, reuse_actors=reuse, scheduler=halving),
            run_config=ray_tune.RunConfig(storage_path=str(Path(directory)), verbose=0, callbacks=[Ends()]),
        )
        tuner.fit()
    return warm_rate(ends)
