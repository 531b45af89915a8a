"""Format a line of a trial's log."""

from __future__ import annotations

from determined.cli.display.safe_text import log_line
from determined.cli.display.table import time_text


def format_line(text: str, rank: int, written: float, trial_id: int | None = None) -> str:
    """Return a log line with its time and rank; `trial_id` is given if lines of several trials are shown."""
    trial = "" if trial_id is None else f" [trial {trial_id}]"
    return f"[{time_text(written)}]{trial} [rank={rank}] {log_line(text)}"
