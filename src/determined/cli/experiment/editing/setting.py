"""The command `det experiment set`."""

from __future__ import annotations

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.groups import LazyGroup
from determined.cli.selection.arguments import Count, complete_experiments_that
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store
from determined.config.stored import StoredConfig
from determined.errors import InvalidExperimentException
from determined.sentences import counted

_HERE = "determined.cli.experiment.editing.setting"


@click.group(
    cls=LazyGroup,
    commands_in={
        "name": (_HERE, "Change the name of an experiment."),
        "description": (_HERE, "Change the description of an experiment."),
        "gc-policy": (
            "determined.cli.experiment.editing.gc_policy",
            "Change which checkpoints are kept, and delete the others.",
        ),
        "max-slots": (_HERE, "Limit the number of slots that an experiment uses."),
        "priority": (_HERE, "Set the queue priority."),
    },
    aliases={},
)
def set() -> None:
    """Change settings of an experiment.

    \b
    Example: det experiment set name 3 "wider layers"
    """


@click.command(cls=BulkCommand, kind="experiment", action="set the name of {experiment_id:experiment}")
@click.argument("text", metavar="NAME")
@with_json
def name(experiment_id: int, text: str, form: Form) -> None:
    """Change the name of an experiment.

    \b
    Example: det experiment set name 3 "wider layers"
    """
    with opened_store() as store:
        store.upkeep.describe(experiment_id, name=text)
    _print_result(experiment_id, f"renamed to {text}", form)


@click.command(cls=BulkCommand, kind="experiment", action="set the description of {experiment_id:experiment}")
@click.argument("text", metavar="DESCRIPTION")
@with_json
def description(experiment_id: int, text: str, form: Form) -> None:
    """Change the description of an experiment.

    \b
    Example: det experiment set description 3 "as 2, with wider layers"
    """
    with opened_store() as store:
        store.upkeep.describe(experiment_id, description=text)
    _print_result(experiment_id, f"description set to {text}", form)


@click.command(
    "max-slots",
    cls=BulkCommand,
    kind="experiment",
    complete=complete_experiments_that("have not ended"),
    action="set the slot limit of {experiment_id:experiment}",
)
@click.argument("slots", metavar="N", type=Count(min=1))
@with_json
def max_slots(experiment_id: int, slots: int, form: Form) -> None:
    """Limit the number of slots that an experiment uses.

    The limit is for all trials together. Takes effect within a second. Running trials are not stopped; new ones start
    only below the limit.

    \b
    Example: det experiment set max-slots 3 4
    """
    with opened_store() as store:
        each = StoredConfig(store.experiments.get(experiment_id).config).resources.slots
        # Otherwise no trial could start any more.
        if slots < each:
            raise InvalidExperimentException(
                f"resources.max_slots: expected at least slots_per_trial, which is {each}, got {slots}"
            )
        store.upkeep.change_config(experiment_id, "resources", {"max_slots": slots})
    _print_result(experiment_id, f"limited to {counted(slots, 'slot')}", form)


@click.command(
    cls=BulkCommand,
    kind="experiment",
    complete=complete_experiments_that("are in the queue"),
    action="set the priority of {experiment_id:experiment}",
)
# The range of `resources.priority` in a configuration.
@click.argument("number", metavar="N", type=click.IntRange(min=1, max=99))
@with_json
def priority(experiment_id: int, number: int, form: Form) -> None:
    """Set the queue priority.

    1 runs first, 99 last. The default is the priority in the configuration, or 42.

    \b
    Example: det experiment set priority 3 10
    """
    with opened_store() as store:
        store.queue.set_priority(experiment_id, number)
    _print_result(experiment_id, f"queue priority set to {number}", form)


def _print_result(experiment_id: int, done: str, form: Form) -> None:
    """Print what was done, or the changed experiment as JSON."""
    if form == "json":
        with opened_store() as store:
            print_json(experiment_plain(store.experiments.get(experiment_id)))
    else:
        click.echo(visible(f"Experiment {experiment_id}: {done}"))
