"""A line that shows a person where training is; plain lines where nobody can see a line move."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from determined.pytorch.plan import UNKNOWN_LENGTH, Plan

NEVER = sys.maxsize

_FIRST_REPORTS = 100
_SECONDS_BETWEEN_LINES = {True: 0.2, False: 10.0}  # on a terminal, and elsewhere


def is_wanted() -> bool:
    """Unless the environment says no."""
    return os.environ.get("DET_PROGRESS", "1").lower() not in ("0", "false", "off", "no")


class Progress:
    """Shown by the chief on standard error; `next_tick` is the batch at which it wants to be told again.

    The loop runs to that batch without asking the clock, so showing progress costs a batch nothing.
    """

    def __init__(self, plan: Plan, batches: int, *, visible: bool, stream: TextIO | None = None) -> None:
        self._plan = plan
        self._stream: Any = stream if stream is not None else sys.stderr  # None when the program closed it
        self._visible = visible and self._stream is not None and is_wanted()
        self._live = self._visible and self._stream.isatty()
        self._interval = _SECONDS_BETWEEN_LINES[self._live]
        self._since = time.monotonic()
        self._counted = batches
        self._rate = 0.0
        self._loss: tuple[str, float] | None = None
        self._drawn = False
        self._reports_shown = 0
        self._report_shown_at = -math.inf
        self.next_tick = batches + 1 if self._visible else NEVER

    def tick(self, batches: int) -> None:
        """Show where we are, if it is time, and decide when to look again."""
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed >= self._interval:
            self._rate = (batches - self._counted) / elapsed
            self._since, self._counted = now, batches
            self._show(self._describe(batches))
        rate = (batches - self._counted) / (now - self._since) if now > self._since else self._rate
        wait = self._interval - (now - self._since)
        self.next_tick = batches + max(1, int(max(rate, self._rate) * wait))

    @property
    def visible(self) -> bool:
        """Whether anything is shown: validations and checkpoints get a line each then."""
        return self._visible

    def training(self, batches: int, metrics: Mapping[str, Any]) -> None:
        """Take the number a person looks at, `loss` or the first metric; without a terminal it gets a line.

        Reports can come many times in a second: after the first hundred, at most one in a second is shown.
        """
        if not self._visible:
            return
        for name in ("loss", *metrics):
            value = metrics.get(name)
            if isinstance(value, float):
                self._loss = (name, value)
                break
        now = time.monotonic()
        if self._live or (self._reports_shown >= _FIRST_REPORTS and now - self._report_shown_at < 1):
            return
        self._reports_shown += 1
        self._report_shown_at = now
        if now > self._since and batches > self._counted:
            self._rate = (batches - self._counted) / (now - self._since)
        self._since, self._counted = now, batches
        self._line(self._describe(batches))

    def validation(self, batches: int, metrics: Mapping[str, Any]) -> None:
        if self._visible:
            shown = ", ".join(f"{name} {_number(value)}" for name, value in metrics.items())
            self._line(f"validation after {self._where(batches)}: {shown or 'no metrics'}")

    def checkpoint(self, batches: int, uuid: str) -> None:
        if self._visible:
            self._line(f"checkpoint after {self._where(batches)}: {uuid}")

    def close(self) -> None:
        if self._drawn:
            self._drawn = False
            self._write("\r\x1b[K")

    def _describe(self, batches: int) -> str:
        parts = [self._where(batches), f"{_number(self._rate)} batches/s"]
        if self._loss is not None:
            parts.append(f"{self._loss[0]} {_number(self._loss[1])}")
        parts.append(f"next validation at batch {self._plan.next_validation(batches)}")
        if self._rate > 0:
            seconds = int((self._plan.last_batch - batches) / self._rate)
            parts.append(f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left")
        return " | ".join(parts)

    def _where(self, batches: int) -> str:
        batch = f"batch {batches}/{self._plan.last_batch}"
        if self._plan.epoch_length == UNKNOWN_LENGTH:
            return batch
        epochs = self._plan.epoch_of(self._plan.last_batch - 1)[0] + 1
        epoch = self._plan.epoch_of(max(batches - 1, 0))[0] + 1
        return f"epoch {epoch}/{epochs}, {batch}"

    def _show(self, text: str) -> None:
        if not self._live:
            self._line(text)
            return
        self._write(f"\r\x1b[K{text}")
        self._drawn = True

    def _line(self, text: str) -> None:
        self.close()
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal, or whoever read the pipe, is gone: training is not
            self._visible = False
            self.next_tick = NEVER


def _number(value: Any) -> str:
    try:
        return f"{float(value):.4g}"
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    except (TypeError, ValueError):
        return f"{value!s:.40}"
