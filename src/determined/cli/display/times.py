"""Parse and show times: `3h ago`, `--since 2d`."""

from __future__ import annotations

import re
import time
from datetime import datetime

import click

from determined.cli.display.table import time_text
from determined.cli.display.time_zone import shown_zone

# Not supported by Python 3.10's parser: an offset without a colon, as tables show it, and fractions of any length.
_OFFSET_WITHOUT_COLON = re.compile(r"(:\d\d(?:\.\d+)?[+-]\d\d)(\d\d)$")
_FRACTION = re.compile(r"\.(\d+)")
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DAYS_COUNTED = 14  # older times are shown as a date


def ago(seconds: float | None) -> str:
    """Return how long ago a time was, such as `5m ago`; a date for older ones; with `--utc`, the time itself."""
    if seconds is None:
        return ""
    if shown_zone() is not None:
        return time_text(seconds)[:16]
    passed = time.time() - seconds
    if passed < -1 or passed >= _DAYS_COUNTED * _SECONDS["d"]:
        return time_text(seconds)[:10]
    for unit in "dhm":
        if passed >= _SECONDS[unit]:
            return f"{int(passed // _SECONDS[unit])}{unit} ago"
    return f"{max(0, int(passed))}s ago"


def moment(option: str, value: str) -> float:
    """Return a time in RFC 3339 or as shown in tables, in seconds; without a zone it is in the displayed zone."""
    found = _moment(value)
    if found is None:
        raise click.UsageError(f"{option} takes a time like 2026-01-31T12:00:00Z, got {value!r}")
    return found


def since(option: str, value: str) -> float:
    """Return the time that `2d`, `3h`, a date or a time stands for, in seconds."""
    if counted := _AGO.fullmatch(value.strip().lower()):
        return time.time() - float(counted[1]) * _SECONDS[counted[2]]
    found = _moment(value)
    if found is None:
        raise click.UsageError(f"{option} takes 30m, 3h, 2d, 1w, a date or a time like 2026-01-31T12:00, got {value!r}")
    return found


def _moment(value: str) -> float | None:
    """Parse a time; None if it is invalid."""
    written = _OFFSET_WITHOUT_COLON.sub(r"\1:\2", value.strip()).replace("Z", "+00:00")
    written = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", written)
    try:
        parsed = datetime.fromisoformat(written)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=shown_zone())).timestamp()
    except (ValueError, OverflowError):
        return None
