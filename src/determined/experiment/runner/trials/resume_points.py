"""`ResumePoints`: finds, in a thread, the checkpoints from which trials resume.

A checkpoint is verified before a trial resumes from it: all its files are read, or downloaded, which takes minutes if
they are large. Meanwhile the runner has to serve requests, time limits and the store calls of other trials.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import NamedTuple

from determined.experiment.checkpoints.of_trials import TrialCheckpoints
from determined.experiment.runner.trials.live_trial import LiveTrial

logger = logging.getLogger("determined.experiment")

# Small checkpoints are verified within milliseconds: their trials start at once, not with the next pass of the runner.
_SECONDS_TO_WAIT = 0.2


class ResumePoint(NamedTuple):
    """An undamaged checkpoint of a trial, and its step."""

    checkpoint_id: str
    steps: int


_Found = Future[ResumePoint | None]


class ResumePoints:
    """The newest undamaged checkpoints of trials without processes. Used by one thread."""

    def __init__(self, checkpoints: TrialCheckpoints) -> None:
        self._checkpoints = checkpoints
        self._asked: dict[tuple[int, int], _Found] = {}  # by trial and its number of starts
        self._work: queue.SimpleQueue[tuple[int, _Found] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def is_known(self, trial: LiveTrial) -> bool:
        """Return whether the newest undamaged checkpoint of a trial is known.

        The first call starts the search, and waits for it briefly if no other search is running.
        """
        found = self._asked.get(_key(trial))
        if found is None:
            is_busy = any(not other.done() for other in self._asked.values())
            found = self._asked[_key(trial)] = self._look_for(trial)
            wait([found], 0.0 if is_busy else _SECONDS_TO_WAIT)
            if not found.done():
                logger.info("trial %d resumes when its checkpoint has been verified", trial.id)
        return found.done()

    def take(self, trial: LiveTrial) -> ResumePoint | None:
        """Return the checkpoint that is known, or None if there is none, and forget it; raise if the search failed."""
        return self._asked.pop(_key(trial)).result()

    def keep_only(self, trials: Iterable[LiveTrial]) -> None:
        """Forget what is known of other trials: by the time they start, it may have changed."""
        kept = {_key(trial) for trial in trials}
        for key in [key for key in self._asked if key not in kept]:
            self._asked.pop(key).cancel()

    def close(self) -> None:
        """End the thread after the present verification, without waiting for it."""
        self._work.put(None)

    def _look_for(self, trial: LiveTrial) -> _Found:
        """Queue the search for the checkpoint of a trial, and return its future result."""
        found: _Found = Future()
        self._work.put((trial.id, found))
        if self._thread is None:
            # Not waited for at the end of the process: a pause would take as long as the verification.
            self._thread = threading.Thread(target=self._serve, name="resume points", daemon=True)
            self._thread.start()
        return found

    def _serve(self) -> None:
        """Thread: verify one checkpoint after another, as they share the disk or the network."""
        while (work := self._work.get()) is not None:
            trial_id, found = work
            if not found.set_running_or_notify_cancel():
                continue
            try:
                newest = self._checkpoints.newest_good(trial_id)
                found.set_result(None if newest is None else ResumePoint(*newest))
            # Of any class: the runner raises it when it takes the result.
            except BaseException as error:  # noqa: BLE001
                found.set_exception(error)


def _key(trial: LiveTrial) -> tuple[int, int]:
    return trial.id, trial.runs
