"""Which actions an experiment or a trial allows now, and why not; the same things as commands and Python code."""

from __future__ import annotations

from typing import get_args

from determined.experiment.possible_actions import ExperimentAction, why_not, why_not_kill
from determined.store.experiment_records import Experiment, Trial
from determined.store.states import EXPERIMENT_ENDED, TRIAL_ENDED
from determined.web.api.shapes import ActionState

# Actions that need the files of the experiment, which may be on another machine.
_WITH_FILES = ("activate", "continue", "extend", "fork")


def experiment_actions(experiment: Experiment) -> list[ActionState]:
    """Return the actions on an experiment, each with the reason if it cannot be requested now."""
    reasons: dict[str, str | None] = {}
    for action in get_args(ExperimentAction):
        elsewhere = _elsewhere(experiment) if action in _WITH_FILES else None
        reasons[action] = why_not(action, experiment) or elsewhere
    reasons |= {
        "label": None,
        "unlabel": None if experiment.labels else "it has no labels",
        "rename": None,
        "describe": None,
        "note": None,
    }
    reasons["delete"] = reasons.pop("delete")  # the last of the menu
    return _action_states(reasons)


def trial_actions(experiment: Experiment, trial: Trial) -> list[ActionState]:
    """Return the actions on a trial."""
    fork = why_not("fork", experiment) or _elsewhere(experiment)
    return _action_states({"kill_trial": why_not_kill(trial), "fork": fork})


def _action_states(reasons: dict[str, str | None]) -> list[ActionState]:
    return [{"name": name, "enabled": reason is None, "why_not": reason} for name, reason in reasons.items()]


def experiment_commands(experiment: Experiment) -> dict[str, str]:
    """Return the commands of `det` that show or do what the page of an experiment does."""
    number = experiment.id
    commands = {
        "describe": f"det experiment describe {number}",
        "trials": f"det experiment list-trials {number}",
        "checkpoints": f"det experiment list-checkpoints {number}",
        "config": f"det experiment config {number}",
        "logs": f"det experiment logs {number}",
    }
    if experiment.state not in EXPERIMENT_ENDED:
        commands |= {name: f"det experiment {name} {number}" for name in ("pause", "cancel", "kill")}
    if not experiment.is_standalone:
        commands |= {name: f"det experiment {name} {number}" for name in ("activate", "continue", "fork")}
        commands["code"] = f"det experiment download-model-def {number}"
    commands |= {name: f"det experiment {name} {number}" for name in ("archive", "delete")}
    return commands


def experiment_python(experiment: Experiment) -> dict[str, str]:
    """Return Python programs that read the data of an experiment's page with the SDK, by subject."""
    get = f"from determined.experimental import client\n\nexperiment = client.get_experiment({experiment.id})"
    return {
        "experiment": get,
        "trials": f"{get}\nfor trial in experiment.list_trials():\n    print(trial.id, trial.hparams)",
        "checkpoints": f"{get}\ncheckpoint = experiment.list_checkpoints(max_results=1)[0]",
    }


def trial_commands(trial: Trial) -> dict[str, str]:
    """Return the commands of `det` that show or do what the page of a trial does."""
    commands = {
        "describe": f"det trial describe {trial.id}",
        "logs": f"det trial logs {trial.id}",
        "download": f"det trial download {trial.id} --latest",
    }
    if trial.state not in TRIAL_ENDED:
        commands["kill"] = f"det trial kill {trial.id}"
    return commands


def trial_python(trial: Trial) -> dict[str, str]:
    """Return Python programs that read the data of a trial's page with the SDK, by subject."""
    get = f"from determined.experimental import client\n\ntrial = client.get_trial({trial.id})"
    return {
        "trial": get,
        "metrics": f"{get}\nfor report in trial.iter_metrics():\n    print(report.group, report.metrics)",
        "logs": f"{get}\nfor line in trial.iter_logs():\n    print(line, end='')",
    }


def _elsewhere(experiment: Experiment) -> str | None:
    """Return why an experiment cannot run on this machine, or None."""
    from determined.queue.submission import has_files_here  # imports the search methods

    if has_files_here(experiment):
        return None
    where = "" if experiment.holder is None else f" (it was last run on {experiment.holder.process.host})"
    return f"its files are on another machine{where}: use det there"
