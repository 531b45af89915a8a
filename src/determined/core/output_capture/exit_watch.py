"""Find out how this process ends: by an exception, by `sys.exit`, or normally."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any, NoReturn


class ExitWatch:
    """Records, between `start` and `stop`, the error that ends the program. The original hooks are still called."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._excepthook = sys.excepthook
        self._exit: Any = sys.exit

    def start(self) -> None:
        """Replace the hooks that Python calls when a program ends with an error."""
        sys.excepthook = self._on_exception
        # sys.excepthook is not called for SystemExit, so sys.exit is replaced as well.
        sys.exit = self._on_exit

    def stop(self) -> None:
        """Restore the hooks, unless the program has replaced them since."""
        # Compared by equality: a bound method is a new object at each access.
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._excepthook
        if sys.exit == self._on_exit:
            sys.exit = self._exit

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Record an uncaught exception and call the original hook, which prints it."""
        self.error = error
        self._excepthook(kind, error, trace)

    def _on_exit(self, status: Any = None, /) -> NoReturn:
        """Record a call of `sys.exit` in the main thread and exit."""
        if threading.current_thread() is threading.main_thread():  # in another thread sys.exit() ends only that thread
            self.error = SystemExit(status)
        # The original may be a replacement of another library, which may return.
        self._exit(status)
        raise SystemExit(status)
