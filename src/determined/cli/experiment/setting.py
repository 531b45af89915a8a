"""`det experiment set`."""

from __future__ import annotations

import click

from determined.cli.groups import Command, LazyGroup
from determined.cli.opened import opened_store
from determined.cli.output import Form, print_json, with_json
from determined.cli.plain import experiment_plain
from determined.cli.text import visible
from determined.cli.whole_numbers import ID, Count
from determined.errors import InvalidExperimentException

_HERE = "determined.cli.experiment.setting"


@click.group(
    cls=LazyGroup,
    commands_in={
        "name": (_HERE, "Change the name of an experiment."),
        "description": (_HERE, "Change the description of an experiment."),
        "gc-policy": ("determined.cli.experiment.gc_policy", "Change which checkpoints stay, and remove the others."),
        "max-slots": (_HERE, "Change how many slots an experiment may use."),
        "priority": (_HERE, "Change when it is the turn of an experiment in the queue."),
    },
    aliases={},
)
def set() -> None:
    """Change what was said of an experiment.

    \b
    Example: det experiment set name 3 "wider layers"
    """


@click.command(cls=Command)
@click.argument("experiment_id", metavar="ID", type=ID)
@click.argument("text", metavar="NAME")
@with_json
def name(experiment_id: int, text: str, form: Form) -> None:
    """Change the name of an experiment.

    \b
    Example: det experiment set name 3 "wider layers"
    """
    with opened_store() as store:
        store.upkeep.describe(experiment_id, name=text)
    _tell(experiment_id, f"it is named {text}", form)


@click.command(cls=Command)
@click.argument("experiment_id", metavar="ID", type=ID)
@click.argument("text", metavar="DESCRIPTION")
@with_json
def description(experiment_id: int, text: str, form: Form) -> None:
    """Change the description of an experiment.

    \b
    Example: det experiment set description 3 "as 2, with wider layers"
    """
    with opened_store() as store:
        store.upkeep.describe(experiment_id, description=text)
    _tell(experiment_id, f"it is described as {text}", form)


@click.command("max-slots", cls=Command)
@click.argument("experiment_id", metavar="ID", type=ID)
@click.argument("slots", metavar="N", type=Count(min=1))
@with_json
def max_slots(experiment_id: int, slots: int, form: Form) -> None:
    """Change how many slots an experiment may use.

    Over all its trials. One that runs takes it within a second: no trial is ended for it, but none is started either
    until there is room.

    \b
    Example: det experiment set max-slots 3 4
    """
    with opened_store() as store:
        resources = store.experiments.get(experiment_id).config.get("resources") or {}
        each = max(1, resources.get("slots_per_trial", 1))
        if slots < each:
            raise InvalidExperimentException(
                f"resources.max_slots: expected at least slots_per_trial, which is {each}, got {slots}"
            )
        store.upkeep.change_config(experiment_id, "resources", {"max_slots": slots})
    _tell(experiment_id, f"it may use {slots} slot{'' if slots == 1 else 's'}", form)


@click.command(cls=Command)
@click.argument("experiment_id", metavar="ID", type=ID)
@click.argument("number", metavar="N", type=click.IntRange(min=1, max=99))
@with_json
def priority(experiment_id: int, number: int, form: Form) -> None:
    """Change when it is the turn of an experiment in the queue.

    1 goes first, 99 last; without it an experiment has the priority of its configuration, or 42.

    \b
    Example: det experiment set priority 3 10
    """
    with opened_store() as store:
        store.queue.set_priority(experiment_id, number)
    _tell(experiment_id, f"its priority in the queue is {number}", form)


def _tell(experiment_id: int, done: str, form: Form) -> None:
    if form == "json":
        with opened_store() as store:
            print_json(experiment_plain(store.experiments.get(experiment_id)))
    else:
        click.echo(visible(f"Experiment {experiment_id}: {done}"))
