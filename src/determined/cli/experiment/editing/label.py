"""The command `det experiment label`."""

from __future__ import annotations

from typing import Any

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.groups import LazyGroup
from determined.cli.selection.arguments import complete_experiments, complete_labels
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store

_HERE = "determined.cli.experiment.editing.label"


@click.group(
    cls=LazyGroup,
    commands_in={
        "add": (_HERE, "Add a label to an experiment."),
        "remove": (_HERE, "Remove a label from an experiment."),
    },
    aliases={},
)
def label() -> None:
    """Add and remove labels.

    \b
    Example: det experiment label add 3 baseline
    """


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete ids of experiments, and after the first one also labels: any number of ids may precede the label."""
    found = complete_experiments(context, parameter, incomplete)
    if context.params.get("experiment_id") or context.params.get("text"):
        found += complete_labels(context, parameter, incomplete)
    return found


@click.command(
    cls=BulkCommand, kind="experiment", complete=_complete, action="add a label to {experiment_id:experiment}"
)
@click.argument("text", metavar="LABEL")
@with_json
def add(experiment_id: int, text: str, form: Form) -> None:
    """Add a label to an experiment.

    \b
    Example: det experiment label add 3 baseline
    """
    _change(experiment_id, [text], [], form)


@click.command(
    cls=BulkCommand, kind="experiment", complete=_complete, action="remove a label from {experiment_id:experiment}"
)
@click.argument("text", metavar="LABEL")
@with_json
def remove(experiment_id: int, text: str, form: Form) -> None:
    """Remove a label from an experiment.

    \b
    Example: det experiment label remove 3 baseline
    """
    _change(experiment_id, [], [text], form)


def _change(experiment_id: int, add: list[str], remove: list[str], form: Form) -> None:
    """Change the labels of an experiment, and print the new ones."""
    with opened_store() as store:
        labels = store.upkeep.change_labels(experiment_id, add=add, remove=remove)
        row = store.experiments.get(experiment_id)
    if form == "json":
        print_json(experiment_plain(row))
    else:
        click.echo(visible(f"Labels of experiment {experiment_id}: {', '.join(labels) or 'none'}"))
