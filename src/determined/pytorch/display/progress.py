"""`Progress`: show the progress of training: a redrawn line on a terminal, separate lines in a file or a pipe."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import time
import unicodedata
from collections.abc import Mapping
from typing import Any, TextIO

from determined.core.output_capture.output_copy import Transient
from determined.pytorch.plan import UNKNOWN_LENGTH, Plan
from determined.switches import is_on

logger = logging.getLogger("determined.pytorch")

NEVER = sys.maxsize

_FIRST_REPORTS = 100  # without a terminal, this number of reports is always shown; later ones at most once a second
_SECONDS_BETWEEN_LINES = {True: 0.2, False: 10.0}  # on a terminal; elsewhere
_USUAL_COLUMNS = 80  # for a terminal that does not report its width


def say(text: str) -> None:
    """Print a line for the user on standard error, even if progress is switched off.

    Errors of a closed or full stream are ignored: training must not fail because of a message.
    """
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def is_wanted() -> bool:
    """Return False if the environment variable DET_PROGRESS switches progress off."""
    return is_on(os.environ, "DET_PROGRESS")


class Progress:
    """Shows progress on standard error, on the chief. `next_tick` is the batch at which to call `tick` again.

    The loop runs to that batch without reading the clock, so showing progress costs nothing per batch.
    """

    def __init__(self, plan: Plan, batches: int, *, visible: bool, stream: TextIO | None = None) -> None:
        self._plan = plan
        # Read when training begins: a notebook or a test may have replaced the stream.
        self._stream: Any = stream if stream is not None else sys.stderr  # None if the program closed it
        self._visible = visible and self._stream is not None and is_wanted()
        # A dumb terminal cannot erase a line.
        self._live = self._visible and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._interval = _SECONDS_BETWEEN_LINES[self._live]
        self._since = time.monotonic()
        self._counted = batches
        self._rate = 0.0
        self._loss: tuple[str, float] | None = None
        # Whether the line is on the screen, so that other text does not join it.
        self._drawn = False
        self._reports_shown = 0
        self._report_shown_at = -math.inf
        self.next_tick = batches + 1 if self._visible else NEVER

    def tick(self, batches: int) -> None:
        """Show the progress if the interval has passed, and estimate the batch at which to check again."""
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed >= self._interval:
            self._rate = (batches - self._counted) / elapsed
            # The rate is that of the last interval, not the mean, so that it follows a change of speed.
            self._since, self._counted = now, batches
            self._show(self._describe(batches))
        rate = (batches - self._counted) / (now - self._since) if now > self._since else self._rate
        # The estimate is refreshed at each tick, so a wrong one delays a single line.
        wait = self._interval - (now - self._since)
        # The larger rate, since the current interval may have just begun.
        self.next_tick = batches + max(1, int(max(rate, self._rate) * wait))

    @property
    def visible(self) -> bool:
        """Whether progress is shown; validations and checkpoints then get a line each."""
        return self._visible

    def training(self, batches: int, metrics: Mapping[str, Any]) -> None:
        """Remember the loss (or else the first metric) of a report for the line; without a terminal, print a line.

        Reports can come many times a second: after the first hundred, at most one per second is printed.
        """
        if not self._visible:
            return
        for name in ("loss", *metrics):
            value = metrics.get(name)
            if isinstance(value, float):
                # A name with control characters would move the cursor.
                self._loss = (name if name.isprintable() else ascii(name), value)
                break
        now = time.monotonic()
        # The first reports show that training works; later ones would flood a log file.
        if self._live or (self._reports_shown >= _FIRST_REPORTS and now - self._report_shown_at < 1):
            return
        self._reports_shown += 1
        self._report_shown_at = now
        if now > self._since and batches > self._counted:
            self._rate = (batches - self._counted) / (now - self._since)
        self._since, self._counted = now, batches
        self._line(" | ".join(self._describe(batches)))

    def validation(self, batches: int, metrics: Mapping[str, Any]) -> None:
        """Print the metrics of a validation."""
        if self._visible:
            self._line(self._validation_line(batches, metrics))

    def checkpoint(self, batches: int, checkpoint_id: str) -> None:
        """Print the id of a checkpoint."""
        if self._visible:
            self._line(self._checkpoint_line(batches, checkpoint_id))

    def note(self, text: str) -> None:
        """Print a line above the redrawn one; if progress is switched off, log it instead."""
        if self._visible:
            self._line(text)
        else:
            logger.info("%s", text)

    def close(self) -> None:
        """Erase the redrawn line."""
        if self._drawn:
            self._drawn = False
            # Transient text is not stored in the log of the run.
            self._write(Transient("\r\x1b[K"))

    def _describe(self, batches: int) -> list[str]:
        """Return the parts of the line, the most useful first: a narrow terminal shows only the first ones."""
        parts = [self._where(batches)]
        if self._loss is not None:
            parts.append(f"{self._loss[0]} {_number(self._loss[1])}")
        if self._rate > 0:
            seconds = int((self._plan.last_batch - batches) / self._rate)
            parts.append(f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left")
        parts.append(f"{_number(self._rate)} batches/s")
        parts.append(f"next validation at batch {self._plan.next_validation(batches)}")
        return parts

    def _validation_line(self, batches: int, metrics: Mapping[str, Any]) -> str:
        """Return the line about a validation."""
        shown = ", ".join(f"{name} {_number(value)}" for name, value in metrics.items())
        return f"validation after {self._where(batches)}: {shown or 'no metrics'}"

    def _checkpoint_line(self, batches: int, checkpoint_id: str) -> str:
        """Return the line about a stored checkpoint."""
        return f"checkpoint after {self._where(batches)}: {checkpoint_id}"

    def _where(self, batches: int) -> str:
        """Return the position as text, such as `epoch 2/10, batch 150/1000`."""
        batch = f"batch {batches}/{self._plan.last_batch}"
        if self._plan.epoch_length == UNKNOWN_LENGTH:
            return batch
        epochs = self._plan.epoch_of(self._plan.last_batch - 1)[0] + 1
        epoch = self._plan.epoch_of(max(batches - 1, 0))[0] + 1
        return f"epoch {epoch}/{epochs}, {batch}"

    def _show(self, parts: list[str]) -> None:
        """Redraw the line on a terminal, or print it."""
        if not self._live:
            self._line(" | ".join(parts))
            return
        columns = self._columns()
        # The line is padded to the full width: the cursor then waits at the right margin and the terminal wraps before
        # the next character. Anything printed next, also by the shell after a SIGKILL, begins on a new line.
        self._write(Transient(f"\r\x1b[K{_fitted(parts, columns)}"))
        self._drawn = True

    def _columns(self) -> int:
        """Return the current width of the terminal, which may have been resized since the last line."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _USUAL_COLUMNS
        except (OSError, ValueError):
            return _USUAL_COLUMNS

    def _line(self, text: str) -> None:
        """Print a separate line above the redrawn one."""
        self.close()
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        """Write to the stream; if it is closed, stop showing progress."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal or the pipe is closed: training continues
            self._visible = False
            self.next_tick = NEVER


def _fitted(parts: list[str], columns: int) -> str:
    """Return the parts that fit into a line of the terminal, padded with spaces to its full width."""
    text = parts[0]
    for part in parts[1:]:
        if _cells(text) + _cells(part) + 3 > columns:
            break
        # Parts are dropped completely; a number that is cut in the middle would be misread.
        text = f"{text} | {part}"
    while _cells(text) > columns:
        # One character shorter in each round: the last one is an ellipsis already.
        text = f"{text[:-2]}…" if len(text) > 1 else ""
    return text + " " * (columns - _cells(text))


def _cells(text: str) -> int:
    """Return how many columns a text takes on a terminal; names of metrics may be in any script."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _number(value: Any) -> str:
    """Return a value with four significant digits, or as text if it is not a number."""
    try:
        return f"{float(value):.4g}"
    # An integer beyond the range of a float.
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    except (TypeError, ValueError):
        return f"{value!s:.40}"
