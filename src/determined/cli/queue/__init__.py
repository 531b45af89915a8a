"""`det queue`: one module per command."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.queue"
_COMMANDS = {
    "list": (f"{_HERE}.listing", "List the experiments in the queue."),
    "resume": (f"{_HERE}.resume", "Resume the experiments in the queue."),
    "remove": (f"{_HERE}.remove", "Remove an experiment from the queue."),
    "serve": (f"{_HERE}.serve", "Serve the queue in the foreground."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={"ls": "list"}, default="list")
def queue() -> None:
    """Manage queued experiments on this machine.

    Running experiments stay in the queue until they end.

    \b
    Example: det queue
    """
