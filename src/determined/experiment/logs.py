"""The lines that trials write: kept in the store, and read for what they tell about the trial."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

from determined.engines.base import Line
from determined.experiment.settings import Settings
from determined.experiment.trials import LiveTrial, Place, Process
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


# The first line of a traceback, and the line that names a place in it.
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\):$")
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)')


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
        shown = self._store(trial, process, line)
        self._read(process, line, shown)

    def keep_hook_line(self, trial: LiveTrial, line: Line) -> None:
        """Store a line that the startup hook wrote: it says nothing about the trial."""
        assert trial.process is not None
        self._store(trial, trial.process, line)

    def _store(self, trial: LiveTrial, process: Process, line: Line) -> str:
        """Store a line without the secrets of its process, and return its text as it is stored."""
        shown = process.mask(line.text)
        sequence = process.lines.get(line.rank, 0)
        process.lines[line.rank] = sequence + 1
        self._writer.put(
            LogRow(trial.id, trial.runs, line.rank, sequence, line.stream, shown, line.written, level=line.level)
        )
        if self._on_line is not None:
            self._on_line(trial.id, line)
        return shown

    def done(self, trial: LiveTrial) -> None:
        """All lines of the trial's processes are kept."""
        self._writer.flush()

    def _read(self, process: Process, line: Line, shown: str) -> None:
        """Learn from a line why the trial fails; what is remembered of it has no secrets."""
        rank, text = line.rank, shown
        if prefix := _RANK.match(text):
            rank, text = int(prefix[1]), text[prefix.end() :]
        if _TRACEBACK.match(text):
            process.places.pop(rank, None)
        elif frame := _FRAME.match(text):
            _note_place(process, rank, frame[1], int(frame[2]))
        refusal = _REFUSAL.search(text)
        if refusal:
            _note_error(process, rank, f"InvalidHP: {refusal[1]}"[:_LONGEST_REASON])
        elif _ERROR.match(text):
            place = process.places.get(rank)
            where = "" if place is None else f" ({place.file}, line {place.line})"
            _note_error(process, rank, text[:_LONGEST_REASON] + where)
        elif first := _FIRST_FAILURE.match(text):
            process.first_failure = int(first[1]), text
        for policy in self._settings.log_policies:
            if policy.cancel_retries and policy.matches(line.text):
                process.no_retries = f"a line of its log matches the log policy {policy.name!r}"


def _note_error(process: Process, rank: int, text: str) -> None:
    process.errors.pop(rank, None)  # the newest one stands last
    process.errors[rank] = text


def _note_place(process: Process, rank: int, file: str, line: int) -> None:
    """Remember the innermost line of the program itself; where there is none, that of a library."""
    is_own = os.path.isabs(file) and os.path.realpath(file).startswith(os.path.realpath(process.directory) + os.sep)
    known = process.places.get(rank)
    if is_own or known is None or not known.is_own:
        shown = os.path.relpath(os.path.realpath(file), os.path.realpath(process.directory)) if is_own else file
        process.places[rank] = Place(shown, line, is_own)
