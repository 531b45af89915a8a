"""One line of a trial's log, as it is printed."""

from __future__ import annotations

from determined.cli.render import time_text
from determined.cli.text import log_line


def format_line(text: str, rank: int, written: float, trial_id: int | None = None) -> str:
    """With when and by whom it was written; the trial only where lines of several are shown."""
    trial = "" if trial_id is None else f" [trial {trial_id}]"
    return f"[{time_text(written)}]{trial} [rank={rank}] {log_line(text)}"
