"""How this process ends: by an exception, by `sys.exit`, or well."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any, NoReturn


class ExitWatch:
    """From `start` to `stop` the last word of the program is noted. What was there before is called all the same."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._excepthook = sys.excepthook
        self._exit: Any = sys.exit

    def start(self) -> None:
        sys.excepthook = self._on_exception
        sys.exit = self._on_exit

    def stop(self) -> None:
        # Bound methods are made anew each time: they are equal, not identical.
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._excepthook
        if sys.exit == self._on_exit:
            sys.exit = self._exit

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.error = error
        self._excepthook(kind, error, trace)

    def _on_exit(self, status: Any = None, /) -> NoReturn:
        if threading.current_thread() is threading.main_thread():  # elsewhere it ends the thread alone
            self.error = SystemExit(status)
        self._exit(status)
        raise SystemExit(status)
