"""`det queue`: one file per command."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.queue"
_COMMANDS = {
    "list": (f"{_HERE}.listing", "List the experiments in the queue."),
    "resume": (f"{_HERE}.resume", "Go on with the experiments in the queue."),
    "remove": (f"{_HERE}.remove", "Take an experiment out of the queue."),
    "serve": (f"{_HERE}.serve", "Serve the queue in the foreground."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={"ls": "list"}, default="list")
def queue() -> None:
    """Experiments that wait for the slots of this machine.

    Those that have their slots already are in it until they end.

    \b
    Example: det queue
    """
