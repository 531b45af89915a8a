"""The command `det store check`."""

from __future__ import annotations

import sys

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.file_operations import progress
from determined.sentences import counted


@click.command(cls=Command, action="check the store")
@with_json
def check(form: Form) -> None:
    """Check the store for damage.

    Check the database, all tables and their references. The exit code is 1 if something is wrong.

    \b
    Example: det store check
    """
    from determined.store.maintenance.check import check_store

    with progress("") as report:
        place, findings = check_store(report)
    if form == "json":
        plain = [{"where": finding.where, "what": finding.what} for finding in findings]
        print_json({"place": place, "ok": not findings, "findings": plain})
    else:
        for finding in findings:
            click.echo(visible(str(finding)))
        click.echo(f"{visible(place)}: {_verdict(len(findings))}")
    if findings:
        sys.exit(1)


def _verdict(count: int) -> str:
    """Return the final line for a number of findings."""
    if not count:
        return "no problems found"
    return (
        f"{counted(count, 'problem')} found. Stop all processes that write to the store, then restore a backup, "
        "or save what can be read: det store export"
    )
