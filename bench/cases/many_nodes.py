"""The CPU time of a runner whose trials run on many nodes."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from bench.measure import Effort, in_child
from bench.table import Row, not_installed

NODES, TRIALS, MOST_CORES = 100, 1000, 0.5
CASE = f"{NODES} simulated nodes, {TRIALS:,} trials"


def many_nodes(effort: Effort) -> list[Row]:
    """Run a real runner, its engine for Ray and its SQLite store; nodes and trials are simulated by one process."""
    if importlib.util.find_spec("ray") is None:
        return [not_installed(CASE, "ray")]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        arguments = {"nodes": NODES, "trials": TRIALS, "seconds": 20.0 if effort.starts > 1 else 3.0}
        environment = {"XDG_DATA_HOME": directory}
        found = in_child("bench.cases.many_nodes:run", arguments, environment=environment)
    cores = found["cpu"] / found["seconds"]
    return [
        Row(
            CASE,
            "determined on Ray",
            us=cores * 1e6,
            must_be=f"<= {MOST_CORES:g} of a core",
            ok=cores <= MOST_CORES,
            note=f"CPU of the runner in a second; {found['answers'] / found['seconds']:,.0f} calls of workers in it",
            detail=found,
        )
    ]


def run(nodes: int, trials: int, seconds: float) -> dict[str, Any]:
    """Run a search to its end; return the CPU seconds of this process while all its trials report."""
    from bench.simulated_nodes import bridge
    from determined.config.experiment import load_experiment
    from determined.engines.ray.engine import NodeData, RayEngine
    from determined.experiment.creation.create import create_experiment
    from determined.experiment.runner.run import run_experiment
    from determined.store.open import checked_place, open_store

    config = {
        "name": "many nodes",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"rate": {"type": "double", "minval": 0, "maxval": 1}},
        "searcher": {
            "name": "random",
            "metric": "loss",
            "max_length": {"batches": 1000},
            "max_trials": trials,
            "max_concurrent_trials": trials,
        },
    }
    with tempfile.TemporaryDirectory() as directory:
        model, result = Path(directory) / "model", Path(directory) / "result.json"
        model.mkdir()
        (model / "train.py").write_text("# The simulation reports in its place.\n")
        start = bridge(nodes, -(-trials // nodes), trials, seconds, result)
        with RayEngine("simulated:1", 1, NodeData("simulated", "none", {}, model), bridge=start) as engine:
            store = open_store()
            created = create_experiment(load_experiment(config), model, store, engine=engine)
            ended = run_experiment(checked_place(), created.experiment_id, engine=engine)
            states = [trial.state for trial in store.experiments.trials(created.experiment_id)]
            store.close()
        found: dict[str, Any] = json.loads(result.read_text())
    return {**found, "state": ended.state, "completed": states.count("COMPLETED")}
