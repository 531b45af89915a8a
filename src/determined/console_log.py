"""Print this library's warnings with their level in programs that have not configured logging."""

from __future__ import annotations

import logging
import sys


class _ConsoleHandler(logging.Handler):
    """Prints warnings and errors to standard error, prefixed with their level, if the program has no log handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record on standard error, unless the program has configured logging itself."""
        # Asked for every record, because the program may configure logging later.
        if logging.root.handlers or sys.stderr is None:
            return  # the handlers of the program receive the record, too
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:  # noqa: BLE001  (like every handler: logging must not end a program)
            self.handleError(record)


def show_levels() -> None:
    """Print warnings with their level from now on, unless the program configures logging."""
    logger = logging.getLogger("determined")
    # Runs are opened repeatedly in a notebook; one handler is enough.
    if not any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers):
        handler = _ConsoleHandler(logging.WARNING)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
