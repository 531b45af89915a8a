"""The command `det tensorboard`."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_in={"start": ("determined.cli.tensorboard.start", "Start TensorBoard for experiments and trials.")},
    aliases={},
    default="start",
)
def tensorboard() -> None:
    """Show metrics in TensorBoard.

    \b
    Example: det tensorboard start 3
    """
