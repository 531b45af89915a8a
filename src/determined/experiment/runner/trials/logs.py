"""Store the lines that trials write, and extract the errors they contain."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from determined.engines.base import Line
from determined.experiment.runner.settings import Settings
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.process import LogFindings, Place, TrialProcess
from determined.store.rows import LogRow
from determined.store.store import Store
from determined.store.workers.writer import Writer

OnLine = Callable[[int, Line], None]

# The last line of a traceback: a dotted exception name, perhaps with a message.
_ERROR = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning|InvalidHP|NotFound)\w*)(?::\s*(.*))?$")
# The message of `core.Context` for a trial that raised InvalidHP, which shows no traceback.
_REFUSAL = re.compile(r"the trial refused its hyperparameters and ends: (.*)$")
# With several ranks torch writes this before each line of a traceback.
_RANK = re.compile(r"\[rank(\d+)\]: ")
# The last message of `determined.launch.torch_distributed`.
_FIRST_FAILURE = re.compile(r"the worker of rank (\d+) failed first, with exit code \d+$")
# A reason is one line in lists; the complete traceback is in the log.
_LONGEST_REASON = 500


# The first line of a traceback, and the line that names a file in it.
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)')


class TrialLogWriter:
    """Stores log lines through a separate writer, so that decisions never wait for a flood of lines."""

    def __init__(self, writer: Writer[Store], settings: Settings, on_line: OnLine | None = None) -> None:
        self._writer = writer
        self._settings = settings
        self._on_line = on_line

    def keep(self, trial: LiveTrial, line: Line) -> None:
        """Store a line of the trial's processes, and extract errors from it."""
        process = trial.process
        assert process is not None
        process.activity.note_output()
        shown = self._store(trial, process, line)
        if line.finished:
            self._read(process, line, shown)

    def keep_hook_line(self, trial: LiveTrial, line: Line) -> None:
        """Store a line of the startup hook, without searching it for the trial's errors."""
        assert trial.process is not None
        self._store(trial, trial.process, line)

    def _store(self, trial: LiveTrial, process: TrialProcess, line: Line) -> str:
        """Store a line with the secrets of its process masked, and return the stored text."""
        shown = process.mask(line.text)
        # The lines of a rank are numbered, so that their order is known although times may be equal.
        sequence = process.log.lines.get(line.rank, 0)
        process.log.lines[line.rank] = sequence + 1
        replaced = process.log.unfinished.pop((line.rank, line.stream), None)
        if not line.finished:
            process.log.unfinished[line.rank, line.stream] = sequence
        self._writer.put(
            LogRow(
                trial.id,
                trial.runs,
                line.rank,
                sequence,
                line.stream,
                shown,
                line.written,
                level=line.level,
                finished=line.finished,
                replaces=replaced,
            )
        )
        if self._on_line is not None and line.finished:
            self._on_line(trial.id, line)
        return shown

    def done(self, trial: LiveTrial) -> None:
        """Wait until all lines of the trial's processes are stored."""
        self._writer.flush()

    def _read(self, process: TrialProcess, line: Line, shown: str) -> None:
        """Extract from a line why the trial fails; the masked text is used."""
        rank, text, log = line.rank, shown, process.log
        if prefix := _RANK.match(text):
            rank, text = int(prefix[1]), text[prefix.end() :]
        # At the end of the line: a progress bar that was not ended, and a rank after it, stand before it.
        if text.endswith(_TRACEBACK):
            if prefix := _RANK.search(text):
                rank = int(prefix[1])
            # A new traceback begins: frames of an earlier one do not belong to this error.
            log.places.pop(rank, None)
        elif frame := _FRAME.match(text):
            _note_place(process, rank, frame[1], int(frame[2]))
        refusal = _REFUSAL.search(text)
        if refusal:
            _note_error(log, rank, f"InvalidHP: {refusal[1]}"[:_LONGEST_REASON])
        elif _ERROR.match(text):
            place = log.places.get(rank)
            where = "" if place is None else f" ({place.file}, line {place.line})"
            _note_error(log, rank, text[:_LONGEST_REASON] + where)
        elif first := _FIRST_FAILURE.match(text):
            log.first_failure = int(first[1]), text
        for policy in self._settings.log_policies:
            # The unmasked text is searched, since a pattern may match what the mask hides.
            if policy.cancel_retries and policy.matches(line.text):
                log.no_retries = f"a line of its log matches the log policy {policy.name!r}"


def _note_error(log: LogFindings, rank: int, text: str) -> None:
    """Remember the newest error of a rank."""
    log.errors.pop(rank, None)  # removed first, so that the newest error is the last entry of the dict
    log.errors[rank] = text


def _note_place(process: TrialProcess, rank: int, file: str, line: int) -> None:
    """Remember the innermost line of the program itself in a traceback, or else that of a library."""
    own = process.inside(file) if os.path.isabs(file) else None
    places = process.log.places
    known = places.get(rank)
    if own is not None or known is None or not known.is_own:
        places[rank] = Place(own or file, line, own is not None)
