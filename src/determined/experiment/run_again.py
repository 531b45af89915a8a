"""The command that runs an experiment again after it has ended."""

from __future__ import annotations

from determined.store.experiment_records import Experiment

_REPEATABLE = ("single", "random", "grid")  # their failed trials can start again: trials are not compared on the way


def run_again_command(experiment: Experiment) -> str:
    """Return `det experiment continue ID` for an experiment whose failed trials can start again, else `fork`."""
    method = (experiment.config.get("searcher") or {}).get("name")
    continues = experiment.state == "ERROR" and method in _REPEATABLE
    return f"det experiment {'continue' if continues else 'fork'} {experiment.id}"
