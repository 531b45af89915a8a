"""The command `det completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from determined.cli.command import Command


@click.command(cls=Command, action="print the completion script")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    \b
    Example: det completion bash >> ~/.bashrc
    For zsh:  det completion zsh >> ~/.zshrc
    For fish: det completion fish > ~/.config/fish/completions/det.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    # The name of the variable is the one that click derives for `det`.
    click.echo(found(context.find_root().command, {}, "det", "_DET_COMPLETE").source())
