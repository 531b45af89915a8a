"""Commands that only watch: Ctrl-C ends the watching, not the experiment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def only_watching(what: str) -> Iterator[None]:
    """Let Ctrl-C print one line and end the command with 130: not with 0, or `wait && ...` would continue."""
    try:
        yield
    except KeyboardInterrupt:
        after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has printed ^C
        click.echo(f"{after_echo}Stopped watching; {what} is not affected", err=True)
        raise
