"""Which actions an experiment or a trial allows now, and why not; the same things as commands and Python code."""

from __future__ import annotations

from determined.config.stored import StoredConfig
from determined.store.experiment_records import Experiment, Trial
from determined.store.process import has_runner
from determined.store.standalone_runs import is_finished_or_interrupted
from determined.store.states import EXPERIMENT_ENDED, EXPERIMENT_RUNNING, TRIAL_ENDED
from determined.web.api.shapes import ActionState


def experiment_actions(experiment: Experiment) -> list[ActionState]:
    """Return the actions on an experiment, each with the reason if it cannot be requested now."""
    ended = _ended(experiment)
    over = is_finished_or_interrupted(experiment)
    reasons = {
        "pause": ended or ("it is paused already" if experiment.state == "PAUSED" else None),
        "activate": _standalone(experiment)
        or (f"{ended}: continue or fork it" if ended else None)
        or ("it is running" if _has_runner(experiment) and experiment.state != "PAUSED" else None)
        or _elsewhere(experiment),
        "cancel": ended,
        "kill": ended,
        "continue": _standalone(experiment)
        or ("it is running: pause it first" if _has_runner(experiment) else None)
        or _elsewhere(experiment),
        "extend": _standalone(experiment)
        or (
            "its search has no number of trials"
            if StoredConfig(experiment.config).searcher.max_trials is None
            else "it is running: pause it first"
            if _has_runner(experiment)
            else None
        )
        or _elsewhere(experiment),
        "fork": _standalone(experiment) or _elsewhere(experiment),
        "archive": "it is archived"
        if experiment.archived
        else None
        if is_finished_or_interrupted(experiment)
        else "it has not ended",
        "unarchive": None if experiment.archived else "it is not archived",
        "label": None,
        "unlabel": None if experiment.labels else "it has no labels",
        "rename": None,
        "describe": None,
        "note": None,
        "delete": None if over else "it has not ended: cancel or kill it first",
    }
    return [{"name": name, "enabled": why is None, "why_not": why} for name, why in reasons.items()]


def trial_actions(experiment: Experiment, trial: Trial) -> list[ActionState]:
    """Return the actions on a trial."""
    why = f"it has already ended ({trial.state})" if trial.state in TRIAL_ENDED else None
    if why is None and experiment.state == "PAUSED" and not experiment.is_standalone:
        why = "its experiment is paused"
    reasons = {"kill_trial": why, "fork": _standalone(experiment) or _elsewhere(experiment)}
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
        "logs": f"{get}\nfor line in trial.logs():\n    print(line, end='')",
    }


def _ended(experiment: Experiment) -> str | None:
    """Return why an experiment that has ended cannot be stopped, or None."""
    return f"it has already ended ({experiment.state})" if experiment.state in EXPERIMENT_ENDED else None


def _standalone(experiment: Experiment) -> str | None:
    """Return why an action that needs a runner cannot be carried out on a standalone run, or None."""
    return f"it is a standalone run: start {experiment.program} again" if experiment.is_standalone else None


def _elsewhere(experiment: Experiment) -> str | None:
    """Return why an experiment cannot run on this machine, or None."""
    from determined.queue.submission import has_files_here  # imports the search methods

    if has_files_here(experiment):
        return None
    where = "" if experiment.holder is None else f" (it was last run on {experiment.holder.process.host})"
    return f"its files are on another machine{where}: use det there"


def _has_runner(experiment: Experiment) -> bool:
    """Return whether a process runs the experiment. Its lease alone does not tell: it is released after the end."""
    return experiment.state in (*EXPERIMENT_RUNNING, "PAUSED") and has_runner(experiment)
