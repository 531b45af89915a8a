"""How each command of `det` is called in the tests that call all of them: a new command gets a line here.

COMMANDS["experiment describe"] = Case("{experiment}", tables=(...), store="reads")

What is filled into arguments: {experiment} is a search that has ended, {trial} and {checkpoint} are of it, {spare} is a
checkpoint that may be deleted, {idle} an active experiment that nobody runs, {model} a model with one version, {config}
and {model_dir} are a configuration and its program, {directory} is a directory that is not there yet, {export}
an export without experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_OF_THE_SEARCH = ("{experiment}", "{trial}", "{checkpoint}", "{spare}", "{idle}", "{model}")


@dataclass(frozen=True)
class Case:
    """One call of a command."""

    arguments: str = ""
    # Whether it opens the store, and whether it changes it: commands that change it wait for another writer, then fail.
    store: Literal["none", "reads", "writes"] = "reads"
    # The headings of the tables that it prints without --json, in their order, as the specification has them.
    tables: tuple[tuple[str, ...], ...] = ()
    exit_code: int = 0  # with the search
    words: str = ""  # in its answer when the exit code is not 0
    form: Literal["json", "lines", "none"] = "json"  # the type of what --json prints; None: it has no --json
    elsewhere: str = ""  # the file of the tests that run it with a search, if this one cannot
    reports: bool = False  # its purpose is to report problems, in many lines and on standard output

    @property
    def empty_exit_code(self) -> int:
        """Return the expected exit code on an empty store: commands that name an object fail, others print nothing."""
        return int(any(word in self.arguments for word in _OF_THE_SEARCH))


EXPERIMENTS = ("ID", "Owner", "Name", "Parent ID", "State", "Progress", "Started", "Ended", "Resource Pool")
EXPERIMENT = (
    *("Experiment ID", "State", "Progress", "Started", "Ended", "Name", "Description", "Archived", "Resource Pool"),
    "Labels",
)
TRIALS_OF_EXPERIMENT = ("Trial ID", "Experiment ID", "State", "Started", "Ended", "H-Params")
WORKLOADS = (
    *("Trial ID", "# of Batches", "State", "Report Time", "Training Metric: loss", "Training Metric: rate"),
    *("Checkpoint State", "Checkpoint Report Time", "Validation State", "Validation Report Time"),
    *("Validation Metric: accuracy", "Validation Metric: loss"),
)
TRIALS = ("Trial ID", "State", "H-Params", "Started", "Ended", "# of Batches")
DECISIONS = ("#", "Trial ID", "Decision", "Reason")
CHECKPOINTS = ("Trial ID", "# of Batches", "State", "Validation Metric", "UUID", "Resources", "Size")
TRIAL = ("Experiment ID", "State", "H-Params", "Summary Metrics", "Started", "Ended")
WORKLOADS_OF_TRIAL = (
    *("# of Batches", "Report Time", "Checkpoint", "Checkpoint UUID", "Checkpoint Metadata", "Validation Metrics"),
    "Workload Metrics",
)
CHECKPOINT = (
    *("Experiment ID", "Trial ID", "Steps Completed", "Report Time", "Checkpoint UUID", "Validation Metrics"),
    "Metadata",
)
MODELS = ("ID", "Name", "Description", "Workspace ID", "Creation Time", "Last Updated Time", "Metadata")
VERSIONS = ("Version #", "Trial ID", "Batch #", "Checkpoint UUID", "Validation Metrics", "Metadata")
QUEUE = ("Position", "Experiment ID", "Name", "Priority", "State", "Slots", "Progress", "Added")
PREVIEW = ("Trials", "Training Time")
BRACKETS = ("Bracket", "Trials", "At Once", "Rungs")
COMPARED = (("", "Experiment 1"), ("Differs", "Hyperparameter", "Experiment 1"))

IMPORTED = ("Source ID", "New ID", "Name", "New")

_POLICY = "--save-experiment-best 1 --save-trial-best 1 --save-trial-latest 1"

COMMANDS: dict[str, Case] = {
    "experiment create": Case("{config} {model_dir} --paused", store="writes"),
    "experiment fork": Case("{experiment} --paused", store="writes"),
    "experiment list": Case(tables=(EXPERIMENTS,)),
    "experiment describe": Case("{experiment} --metrics", tables=(EXPERIMENT, TRIALS_OF_EXPERIMENT, WORKLOADS)),
    "experiment compare": Case("{experiment}", tables=COMPARED),
    "experiment config": Case("{experiment}"),
    "experiment list-trials": Case("{experiment}", tables=(TRIALS,)),
    "experiment decisions": Case("{experiment}", tables=(DECISIONS,)),
    "experiment list-checkpoints": Case("{experiment}", tables=(CHECKPOINTS,)),
    "experiment logs": Case("{experiment}", form="lines"),
    "experiment pause": Case("{idle}", store="writes"),
    "experiment activate": Case("{experiment} --max-trials 3", store="writes", elsewhere="experiment/test_create.py"),
    "experiment cancel": Case("{idle}", store="writes"),
    "experiment kill": Case("{idle}", store="writes"),
    "experiment wait": Case("{experiment}"),
    "experiment continue": Case(
        "{experiment} --config searcher.max_trials=3", store="writes", elsewhere="store/test_upkeep.py"
    ),
    "experiment download": Case("{experiment} -o {directory}", tables=(CHECKPOINT,)),
    "experiment download-model-def": Case("{experiment} -o {directory}"),
    "experiment archive": Case("{experiment}", store="writes"),
    "experiment unarchive": Case("{experiment}", store="writes"),
    "experiment label add": Case("{experiment} a,b", store="writes"),
    "experiment label remove": Case("{experiment} none", store="writes"),
    "experiment set name": Case("{experiment} ../another", store="writes"),
    "experiment set description": Case("{experiment} text", store="writes"),
    "experiment set max-slots": Case("{experiment} 2", store="writes"),
    "experiment set priority": Case("{idle} 7", store="writes", exit_code=1, words="is not in the queue"),
    "experiment set gc-policy": Case(f"{{experiment}} {_POLICY} --yes", store="writes"),
    "experiment delete": Case("{experiment} --yes", store="writes"),
    "experiment delete-tb-files": Case("{experiment} --yes", store="writes"),
    "run": Case("--paused true", store="writes", elsewhere="running/test_run.py"),
    "trial describe": Case("{trial} --metrics", tables=(TRIAL, WORKLOADS_OF_TRIAL)),
    "trial logs": Case("{trial}", form="lines"),
    "trial download": Case("{trial} --best -o {directory}", tables=(CHECKPOINT,)),
    "trial support-bundle": Case("{trial} -o {directory}"),
    "trial kill": Case("{trial}", store="writes", exit_code=1, words="COMPLETED"),
    "checkpoint describe": Case("{checkpoint}", tables=(CHECKPOINT,)),
    "checkpoint download": Case("{checkpoint} -o {directory}", tables=(CHECKPOINT,)),
    "checkpoint delete": Case("{spare} --yes", store="writes"),
    "checkpoint export": Case(
        "{checkpoint} -o {directory}",
        exit_code=1,
        words="holds none of the state files",
        elsewhere="../pytorch/checkpoint/test_plain_weights.py",
    ),
    "checkpoint rm": Case("{spare} --glob *.bin --yes", store="writes"),
    "model create": Case("another --description text", store="writes", tables=(MODELS,)),
    "model list": Case(tables=(MODELS,)),
    "model describe": Case("{model}", tables=(MODELS, VERSIONS)),
    "model list-versions": Case("{model}", tables=(VERSIONS,)),
    "model register-version": Case("{model} {spare}", store="writes", tables=(VERSIONS,)),
    "model delete": Case("{model} --yes", store="writes"),
    "model delete-version": Case("{model} 1 --yes", store="writes"),
    "tensorboard start": Case("{experiment} --no-browser", elsewhere="test_tensorboard.py"),
    "ui start": Case("--no-browser", store="none", elsewhere="../web/test_serve.py"),
    "ui export": Case("/runs -o {directory}", elsewhere="../web/test_export.py"),
    "store info": Case(tables=(("Table", "Rows"), ("In the data directory", "Files", "Size"))),
    "store check": Case(reports=True),
    "store backup": Case("{directory}"),
    "store vacuum": Case(store="writes"),
    "store export": Case("{directory}"),
    "experiment export": Case("{experiment} -o {directory}"),
    "experiment import": Case("{export}", store="writes", tables=(IMPORTED,)),
    "store import": Case("{export}", store="writes", tables=(IMPORTED,)),
    "cluster": Case(store="none", elsewhere="test_cluster.py"),
    "doctor": Case(store="none", elsewhere="test_doctor.py"),
    "queue list": Case(tables=(QUEUE,)),
    "queue resume": Case(),
    "queue remove": Case("{idle}", store="writes", exit_code=1, words="is not in the queue"),
    "queue serve": Case("--idle 0", form="lines"),
    "preview-search": Case("{config} --slots 2", store="none", tables=(PREVIEW, BRACKETS)),
    "user login": Case("somebody -p secret", store="none"),
    "user logout": Case("--all", store="none"),
    "user whoami": Case(store="none"),
    "auth": Case("login --provider saml", store="none"),
    "completion": Case("bash", store="none", form="none"),
    "version": Case(store="none"),
}
