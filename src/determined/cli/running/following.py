"""Commands that only watch an experiment: Ctrl-C ends the command, not the experiment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def only_watching(what: str) -> Iterator[None]:
    """On Ctrl-C, print one line and end the command with code 130: with 0, `wait && ...` would continue."""
    try:
        yield
    except KeyboardInterrupt:
        after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has already printed ^C on this line
        click.echo(f"{after_echo}Stopped watching; {what} is not affected", err=True)
        raise
