"""Shifts the wall clock of a process by the offset that a file contains; Python imports this module at its start."""

from __future__ import annotations

import os
import time

_true_time = time.time


def _odd_time() -> float:
    with open(os.environ["SECONDS_OFF"]) as file:
        return _true_time() + float(file.read() or 0)


time.time = _odd_time
