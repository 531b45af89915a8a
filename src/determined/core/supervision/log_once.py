"""Log messages that are shown once per run, however often their cause occurs."""

from __future__ import annotations

import logging

logger = logging.getLogger("determined.core")


class LogOnce:
    """Logs each message the first time that it is given."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def __call__(self, level: int, message: str) -> None:
        if message not in self._logged:
            self._logged.add(message)
            logger.log(level, "%s", message)
