"""The command `det checkpoint rm`."""

from __future__ import annotations

import click

from determined.cli.command import Command, confirm, with_yes
from determined.cli.display.json_rows import checkpoint_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size
from determined.cli.selection.arguments import with_checkpoints
from determined.cli.store_access import opened_store
from determined.sentences import counted


@click.command(cls=Command, action="remove files of {checkpoints:checkpoint}")
@with_checkpoints
@click.option("--glob", "globs", multiple=True, metavar="PATTERN", help="Pattern of files to remove (repeatable).")
@with_yes
@with_json
def rm(checkpoints: list[str], globs: tuple[str, ...], yes: bool, form: Form) -> None:
    """Remove files of checkpoints.

    The state of the checkpoints becomes PARTIALLY_DELETED. Without --glob, only the recorded file list is refreshed. If
    one is registered or in use, nothing is removed.

    \b
    Example: det checkpoint rm 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c --glob 'optimizer*' --glob 'code/**'
    """
    from pathspec import GitIgnoreSpec

    from determined.experiment.deletion import delete_files_of_checkpoints

    unwanted = GitIgnoreSpec.from_lines(globs).match_file
    with opened_store() as store:
        for row in [store.upkeep.checkpoint(checkpoint_id) for checkpoint_id in checkpoints]:
            for name in sorted(row.resources) if globs else ():
                if unwanted(name):
                    click.echo(visible(f"{row.checkpoint_id}: {name} ({size(row.resources[name])})"), err=True)
        if globs:
            confirm("Remove these files?", yes=yes)
        rows = delete_files_of_checkpoints(store, checkpoints, unwanted)
    if form == "json":
        print_json([checkpoint_plain(row, None) for row in rows])
        return
    for row in rows:
        left = f"{counted(len(row.resources), 'file')}, {size(sum(row.resources.values()))}"
        click.echo(visible(f"Checkpoint {row.checkpoint_id}: {row.shown_state}, {left}"))
