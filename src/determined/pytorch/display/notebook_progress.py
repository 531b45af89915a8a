"""Show the progress of training in a notebook, as one cell output whose text is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from determined.pytorch.display.progress import Progress
from determined.pytorch.plan import Plan
from determined.user_code.program import is_notebook

# A cell output is sent to the browser and stored in the notebook, so it changes less often than a terminal line.
_SECONDS_BETWEEN_UPDATES = 0.5


def shown_progress(plan: Plan, batches: int, *, visible: bool) -> Progress:
    """Return the progress display for this process: a cell output in a notebook, else lines on standard error."""
    kind = NotebookProgress if is_notebook() else Progress
    return kind(plan, batches, visible=visible)


class NotebookProgress(Progress):
    """Shows the current position, the newest validation and the newest checkpoint, one line each.

    The output is plain text, so names of metrics are not interpreted as HTML.
    """

    def __init__(self, plan: Plan, batches: int, *, visible: bool) -> None:
        super().__init__(plan, batches, visible=visible)
        self._live = self._visible  # as on a terminal: no extra line for each report of metrics
        self._interval = _SECONDS_BETWEEN_UPDATES
        self._lines = {"position": "", "validation": "", "checkpoint": ""}
        self._output: Any = None  # IPython's display handle

    def validation(self, batches: int, metrics: Mapping[str, Any]) -> None:
        """Replace the line of the newest validation."""
        if self._visible:
            self._replace("validation", self._validation_line(batches, metrics))

    def checkpoint(self, batches: int, checkpoint_id: str) -> None:
        """Replace the line of the newest checkpoint."""
        if self._visible:
            self._replace("checkpoint", self._checkpoint_line(batches, checkpoint_id))

    def close(self) -> None:
        """Remove the position, which is outdated; the newest validation and checkpoint stay visible."""
        if self._output is not None:
            self._replace("position", "")

    def _show(self, parts: list[str]) -> None:
        """Replace the line of the current position."""
        self._replace("position", " | ".join(parts))

    def _replace(self, name: str, text: str) -> None:
        """Replace one of the lines and update the output of the cell."""
        self._lines[name] = text
        shown = {"text/plain": "\n".join(line for line in self._lines.values() if line)}
        if self._output is None:
            # Not an import statement: type checkers know IPython only if it is installed.
            ipython: Any = import_module("IPython.display")
            self._output = ipython.display(shown, raw=True, display_id=True)
        else:
            self._output.update(shown, raw=True)
