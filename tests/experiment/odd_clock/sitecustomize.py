"""Python imports this at its start: the wall clock of the process is off by what a file says at the moment."""

from __future__ import annotations

import os
import time

_true_time = time.time


def _odd_time() -> float:
    with open(os.environ["SECONDS_OFF"]) as file:
        return _true_time() + float(file.read() or 0)


time.time = _odd_time
