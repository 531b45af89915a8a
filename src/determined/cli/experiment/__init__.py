"""`det experiment`: one module per command, or per few similar commands."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.experiment"
_COMMANDS = {
    "create": (f"{_HERE}.create", "Create an experiment and run it."),
    "fork": (f"{_HERE}.fork", "Create an experiment from another one, with changes."),
    "list": (f"{_HERE}.listing", "List experiments."),
    "describe": (f"{_HERE}.describe", "Describe experiments, their trials and their metrics."),
    "compare": (f"{_HERE}.compare", "Compare experiments and trials side by side."),
    "config": (f"{_HERE}.config", "Show the configuration of an experiment."),
    "list-trials": (f"{_HERE}.list_trials", "List the trials of an experiment, the best first."),
    "decisions": (f"{_HERE}.decisions", "Show why the search promoted and stopped its trials."),
    "list-checkpoints": (f"{_HERE}.list_checkpoints", "List the checkpoints of an experiment."),
    "logs": (f"{_HERE}.logs", "Show the logs of the trials of an experiment."),
    "pause": (f"{_HERE}.control", "Pause an experiment."),
    "activate": (f"{_HERE}.activate", "Resume a paused or interrupted experiment."),
    "cancel": (f"{_HERE}.control", "Cancel an experiment."),
    "kill": (f"{_HERE}.control", "Kill an experiment."),
    "wait": (f"{_HERE}.wait", "Wait for an experiment to end."),
    "continue": (f"{_HERE}.continuing", "Continue an experiment, even an ended one."),
    "download": (f"{_HERE}.download", "Download the best checkpoints of an experiment."),
    "download-model-def": (f"{_HERE}.download_model_def", "Download the code of an experiment."),
    "export": (f"{_HERE}.exporting", "Export experiments with their checkpoints and code."),
    "import": ("determined.cli.store.importing", "Import experiments from files."),
    "archive": (f"{_HERE}.editing.archiving", "Archive an experiment."),
    "unarchive": (f"{_HERE}.editing.archiving", "Unarchive an experiment."),
    "label": (f"{_HERE}.editing.label", "Add and remove labels."),
    "set": (f"{_HERE}.editing.setting", "Change settings of an experiment."),
    "delete": (f"{_HERE}.delete", "Delete an experiment and all its data."),
    "delete-tb-files": (f"{_HERE}.delete", "Delete the TensorBoard files of an experiment."),
}


@click.group(
    cls=LazyGroup,
    commands_in=_COMMANDS,
    aliases={"ls": "list", "lt": "list-trials", "lc": "list-checkpoints", "unpause": "activate"},
    default="list",
)
def experiment() -> None:
    """Create, watch and control experiments.

    \b
    Example: det experiment describe 3
    """
