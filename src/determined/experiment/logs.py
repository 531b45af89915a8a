"""The lines that trials write: kept in the store, and read for what they tell about the trial."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from determined.engines.base import Line
from determined.experiment.settings import Settings
from determined.experiment.trials import LiveTrial, Process
from determined.store.records import LogRow
from determined.store.writer import Writer

OnLine = Callable[[int, Line], None]

# The last line of a traceback: a dotted name that ends like an exception's, perhaps with a message.
_ERROR = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning|InvalidHP|NotFound)\w*)(?::\s*(.*))?$")
# What `core.Context` says of a trial that raised InvalidHP, whose traceback nobody sees.
_REFUSAL = re.compile(r"the trial refused its hyperparameters and ends: (.*)$")
# Torch writes this before each line of a traceback, where there are several ranks.
_RANK = re.compile(r"\[rank(\d+)\]: ")
# What `determined.launch.torch_distributed` says at the end.
_FIRST_FAILURE = re.compile(r"the worker of rank (\d+) failed first, with exit code \d+$")
_LONGEST_REASON = 500


class LogKeeper:
    """Through a writer of its own, so that decisions never wait for a flood of lines."""

    def __init__(self, writer: Writer, settings: Settings, on_line: OnLine | None = None) -> None:
        self._writer = writer
        self._settings = settings
        self._on_line = on_line

    def keep(self, trial: LiveTrial, line: Line) -> None:
        """Store a line that a process of the trial wrote, and read what it says about the trial."""
        process = trial.process
        assert process is not None
        process.sign_of_life = time.monotonic()
        self._store(trial, process, line)
        self._read(process, line)

    def keep_hook_line(self, trial: LiveTrial, line: Line) -> None:
        """Store a line that the startup hook wrote: it says nothing about the trial."""
        assert trial.process is not None
        self._store(trial, trial.process, line)

    def _store(self, trial: LiveTrial, process: Process, line: Line) -> None:
        sequence = process.lines.get(line.rank, 0)
        process.lines[line.rank] = sequence + 1
        self._writer.put(
            LogRow(trial.id, trial.runs, line.rank, sequence, line.stream, line.text, line.written, level=line.level)
        )
        if self._on_line is not None:
            self._on_line(trial.id, line)

    def done(self, trial: LiveTrial) -> None:
        """All lines of the trial's processes are kept."""
        self._writer.flush()

    def _read(self, process: Process, line: Line) -> None:
        rank, text = line.rank, line.text
        if prefix := _RANK.match(text):
            rank, text = int(prefix[1]), text[prefix.end() :]
        refusal = _REFUSAL.search(text)
        if refusal or _ERROR.match(text):
            process.errors.pop(rank, None)  # the newest one stands last
            process.errors[rank] = (f"InvalidHP: {refusal[1]}" if refusal else text)[:_LONGEST_REASON]
        elif first := _FIRST_FAILURE.match(text):
            process.first_failure = int(first[1]), text
        for policy in self._settings.log_policies:
            if policy.pattern.search(line.text) and policy.cancel_retries:
                process.no_retries = f"a line of its log matches the log policy {policy.name!r}"
