"""Whether an experiment can run, and which command to try after it has failed or was canceled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from determined.config.stored import StoredConfig
from determined.errors import InvalidExperimentException
from determined.experiment.runner.fail_fast import is_error_of_program, unreported_metric
from determined.store.experiment_records import Experiment, Trial
from determined.store.states import EXPERIMENT_ENDED

_WORD = re.compile(r"[\w.-]+")


class Advice(NamedTuple):
    """A command, and what it does."""

    command: str
    effect: str


def run_again(experiment: Experiment, trials: Sequence[Trial]) -> Advice:
    """Return the command that can lead to another result than the last time.

    A trial that failed because of a file, the network, memory or a signal may succeed with the same code. A wrong
    searcher metric or refused hyperparameters need another configuration, an error of the program needs other code.
    """
    fork = f"det experiment fork {experiment.id}"
    if experiment.state != "ERROR":
        return Advice(fork, "run it again")
    reported = unreported_metric(experiment.reason or "")
    if reported is not None:
        # A name with other characters would need quotes that depend on the shell.
        words = [name for name in reported if _WORD.fullmatch(name)]
        return Advice(f"{fork} --config searcher.metric={words[0] if words else 'NAME'}", "compare by another metric")
    if trials and all(trial.state == "INVALID_HP" for trial in trials):
        return Advice(f"{fork} --config hyperparameters.NAME=VALUE", "run it with other hyperparameters")
    reasons = [experiment.reason, *(trial.reason for trial in trials if trial.state == "ERROR")]
    if any(is_error_of_program(reason or "") for reason in reasons):
        return Advice("det experiment create CONFIG MODEL_DIR", "run it with corrected code")
    # Only trials that were not compared with others can restart.
    compared = StoredConfig(experiment.config).searcher.method.compares_trials
    again = fork if compared else f"det experiment continue {experiment.id}"
    return Advice(again, "run it again, with the same code")


def check_can_run(experiment: Experiment, max_trials: int | None, trials: Sequence[Trial]) -> None:
    """Raise `InvalidExperimentException` for a standalone run, and for an ended experiment that is not extended."""
    if experiment.is_standalone:
        raise InvalidExperimentException(
            f"experiment {experiment.id} is a standalone run of {experiment.program}: start the program again"
        )
    if experiment.state in EXPERIMENT_ENDED and max_trials is None:
        command, effect = run_again(experiment, trials)
        advice = f"To {effect}: {command}"
        if experiment.state == "COMPLETED":
            advice = f"To train longer, or with more trials: det experiment continue {experiment.id} --config ..."
        raise InvalidExperimentException(f"experiment {experiment.id} is {experiment.state}. {advice}")
