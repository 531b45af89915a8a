"""The root command `det`."""

from __future__ import annotations

import io
import sys

import click

import determined
from determined.cli.command import explain_unused
from determined.cli.groups import LazyGroup

_COMMANDS = {
    "experiment": ("determined.cli.experiment", "Create, watch and control experiments."),
    "run": ("determined.cli.run", "Run a program as an experiment of one trial."),
    "trial": ("determined.cli.trial", "Describe and kill trials, and download their checkpoints."),
    "checkpoint": ("determined.cli.checkpoint", "Describe, download and delete checkpoints."),
    "model": ("determined.cli.model", "Register checkpoints as versions of models."),
    "ui": ("determined.cli.ui", "Browse, compare and control runs in a web browser."),
    "tensorboard": ("determined.cli.tensorboard", "Show metrics in TensorBoard."),
    "store": ("determined.cli.store", "Maintain the store, and move experiments between stores."),
    "queue": ("determined.cli.queue", "Manage queued experiments on this machine."),
    "cluster": ("determined.cli.cluster", "Show the nodes of a Ray cluster and what runs there."),
    "doctor": ("determined.cli.doctor.command", "Check the installation."),
    "preview-search": ("determined.cli.preview_search", "Preview a search without starting it."),
    "user": ("determined.cli.user", "Show the user (there are no accounts)."),
    "auth": ("determined.cli.user.commands", "Accepted for old command lines: there are no accounts."),
    "completion": ("determined.cli.completion", "Print a shell completion script."),
    "version": ("determined.cli.version", "Show the version."),
}


@click.group(
    cls=LazyGroup,
    commands_in=_COMMANDS,
    aliases={"e": "experiment", "t": "trial", "c": "checkpoint", "m": "model"},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(determined.__version__, "-v", "--version", prog_name="det")
@click.option("-m", "--master", metavar="ADDRESS", help="Accepted for old command lines: there is no master.")
@click.option("-u", "--user", metavar="NAME", help="Accepted for old command lines: there are no accounts.")
def main(master: str | None, user: str | None) -> None:
    """Train, search, pause and resume models on this machine.

    \b
    Example: det experiment create config.yaml .

    Results are stored in one file on this machine. DET_STORE selects another store: a file, or a PostgreSQL server.
    """
    # Imported here, since completion and --version need no logging.
    from determined.console_log import show_levels

    show_levels()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack characters in names
    explain_unused("-m/--master", master, "there is no master; DET_STORE names the store to use")
    explain_unused("-u/--user", user, "there are no accounts; the owner is the user of this machine")
