"""`det model`: the model registry."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.model"
_COMMANDS = {
    "create": (f"{_HERE}.create", "Create a model."),
    "list": (f"{_HERE}.listing", "List models."),
    "describe": (f"{_HERE}.describe", "Describe a model and one of its versions."),
    "list-versions": (f"{_HERE}.versions", "List the versions of a model."),
    "register-version": (f"{_HERE}.register", "Register a checkpoint as a version of a model."),
    "delete": (f"{_HERE}.delete", "Delete a model."),
    "delete-version": (f"{_HERE}.delete_version", "Delete a version of a model."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={"ls": "list"}, default="list")
def model() -> None:
    """Register checkpoints as versions of models.

    Registered checkpoints are never deleted.

    \b
    Example: det model register-version digits 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c
    """
