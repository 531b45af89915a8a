"""Describe how a trial was started and why it ended, in lines below the tables of `describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from determined.cli.display.safe_text import visible

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial


def trial_facts(row: Trial) -> list[str]:
    """Return lines about the processes of a trial: the command of a standalone run, and why the trial ended."""
    lines = []
    if row.command is not None:
        commit = f", git commit {row.git_commit[:12]}" if row.git_commit else ""
        lines.append(f"Trial {row.id}: started on {row.host}{commit}: {row.command}")
    restarts = f" after {row.restarts} restart{'s' if row.restarts > 1 else ''}" if row.restarts else ""
    code = f" (exit code {row.exit_code})" if row.exit_code else ""
    if row.reason:
        separator = "\n" if "\n" in row.reason else " "
        lines.append(f"Trial {row.id}: {row.state}{restarts}{code}:{separator}{row.reason}")
    elif code:
        lines.append(f"Trial {row.id}: {row.state}{code}")
    return lines


def lines_visible(text: str) -> str:
    """Return a text of several lines, such as a traceback, with control characters escaped."""
    return "\n".join(visible(line) for line in text.split("\n"))
