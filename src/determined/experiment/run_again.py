"""Whether an experiment can run, and the command that runs it again after it has ended."""

from __future__ import annotations

from determined.errors import InvalidExperimentException
from determined.store.experiment_records import ENDED, Experiment

# Failed trials can restart, because trials are not compared before their end.
_REPEATABLE = ("single", "random", "grid")


def run_again_command(experiment: Experiment) -> str:
    """Return `det experiment continue ID` if the failed trials can start again, else `det experiment fork ID`."""
    method = (experiment.config.get("searcher") or {}).get("name")
    continues = experiment.state == "ERROR" and method in _REPEATABLE
    return f"det experiment {'continue' if continues else 'fork'} {experiment.id}"


def check_can_run(experiment: Experiment, max_trials: int | None) -> None:
    """Raise `InvalidExperimentException` for a standalone run, and for an ended experiment that is not extended."""
    if experiment.by_hand:
        raise InvalidExperimentException(
            f"experiment {experiment.id} is a standalone run of {experiment.program}: start the program again"
        )
    if experiment.state in ENDED and max_trials is None:
        advice = f"To run it again: {run_again_command(experiment)}"
        if experiment.state == "COMPLETED":
            advice = f"To train longer, or with more trials: det experiment continue {experiment.id} --config ..."
        raise InvalidExperimentException(f"experiment {experiment.id} is {experiment.state}. {advice}")
