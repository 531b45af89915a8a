"""Start queued trials while slots are free: choose the trial, its checkpoint and its directory."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path

from determined.engines.base import Interpreter, Job, Line
from determined.errors import EngineError, StartupHookError
from determined.experiment.code import startup_hook
from determined.experiment.code.directories import make_work_dir
from determined.experiment.code.hook_script import HookStopped
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.trials.environment import allocation_key, trial_environment, user_variables
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.process import TrialProcess
from determined.experiment.runner.trials.resume_points import ResumePoint, ResumePoints
from determined.store.experiment_records import nodes_text

logger = logging.getLogger("determined.experiment")

# A single failure may come from a short lack of memory or processes; three in a row point to a lasting problem.
_MOST_FAILED_STARTS = 3  # consecutive


class TrialStarter:
    """Starts trials and counts failures of the engine."""

    def __init__(self, run: RunnerState, stopped: Callable[[], bool]) -> None:
        self._run = run
        self._stopped = stopped  # whether the experiment is to pause or end; called while the startup hook runs
        self._failed = 0
        self._points = ResumePoints(run.checkpoints)

    def start_waiting(self) -> None:
        """Start trials while slots are free.

        Trials that ran before come first, then those that came farthest, then those that others may wait for. A trial
        whose checkpoint is being verified keeps its place, and the runner continues meanwhile.
        """
        run = self._run
        if run.stop_request is not None or run.failure is not None:
            # A stopping experiment starts nothing, not even the startup hook.
            return
        sources = self._find_sources()
        if run.hook_is_due and any(trial.may_start for trial in run.live()):
            self._run_hook()
        if run.stop_request is not None or run.hook_is_due or not _has_room(run):
            return
        waiting = [trial for trial in run.live() if trial.may_start and trial.number not in sources]
        searcher = run.search.searcher
        # False sorts first, so that interrupted trials resume before new ones begin.
        waiting.sort(key=lambda t: (t.runs == 0, -t.rung, len(searcher.waits_for(t.number)), t.number))
        verified_later = 0
        for trial in waiting:
            if not _has_room(run, verified_later):
                break
            # On the first start there is none, and looking for it costs a query.
            if trial.runs == 0:
                self._start(trial, None)
            elif self._points.is_known(trial):
                self._start(trial, self._points.take(trial))
            else:
                verified_later += 1
        self._points.keep_only([*waiting, *(run.trials[number] for number in sources)])

    def close(self) -> None:
        """Stop to verify checkpoints, when no trial will be started any more."""
        self._points.close()

    def _run_hook(self) -> None:
        """Run the startup hook if it is due; if it fails, the experiment is paused."""
        run = self._run
        if run.engine.spans_machines:
            run.hook_is_due = False  # each node runs it, see `node_setup.py`
            return

        def stopped() -> bool:
            """Return whether the experiment is to pause or end."""
            # Otherwise the daemon would wait for an answer to its grant.
            run.engine.events(0.0)  # there are no jobs yet, but slots may be preempted
            return self._stopped()

        try:
            run.hook = startup_hook.prepare(run.files, run.settings.config, say=logger.warning, stopped=stopped)
            run.engine.use(Interpreter() if run.hook is None else run.hook.interpreter())
            run.hook_is_due = False
        except HookStopped:
            pass  # the request that stopped it is handled next
        except StartupHookError as error:
            for line in str(error).splitlines():
                logger.error("%s", line)
            # Not retried, because the next attempt would fail in the same way. Trials keep their state; `activate`
            # tries again.
            run.pause_for(error.summary)

    def _find_sources(self) -> Collection[int]:
        """Resolve trials that start from another trial's checkpoint, before that trial runs on.

        Return the numbers of the trials whose checkpoint is still being verified.
        """
        run = self._run
        unknown = set()
        found: dict[int, ResumePoint | None] = {}
        for trial in run.live():
            if trial.source_number is None:
                continue
            source = run.trials[trial.source_number]
            # A trial that still runs, or has to save its work at the goal, has no checkpoint of that state yet.
            if source.process is not None or source.must_save_again:
                continue
            if source.number not in found:
                if not self._points.is_known(source):
                    unknown.add(source.number)
                    continue
                found[source.number] = self._points.take(source)
            newest = found[source.number]
            if newest is None:
                logger.warning(
                    "Trial %d should start from trial %d's checkpoint, but there is none.", trial.id, source.id
                )
            run.commit(trials=(trial.start_from(None if newest is None else newest.checkpoint_id),))
        return unknown

    def _start(self, trial: LiveTrial, point: ResumePoint | None) -> None:
        """Record the start of a trial from a checkpoint of its own, if it has one, then start it.

        If this process ends in between, the next runner starts it again.
        """
        run = self._run
        try:
            job, process, newest_attempt = _prepared(run, trial, point)
            run.commit(trials=(trial.start(process),))
            run.by_key[process.key] = trial
            # Reports of earlier attempts were read; those after the restored checkpoint are repeated.
            trial.observed.skip_attempts(newest_attempt)
            # Before the processes start, so that the hook's lines come first in the log.
            _log_hook(run, trial)
            run.engine.start(job)
            if run.engine.spans_machines:
                _record_nodes(run, trial, process)
        except EngineError as error:
            self._failed += 1
            if self._failed >= _MOST_FAILED_STARTS:
                raise
            logger.warning("trial %d could not be started; retrying: %s", trial.id, error)
            _queue_again(run, trial)
        else:
            self._failed = 0


def _has_room(run: RunnerState, reserved: int = 0) -> bool:
    """Return whether a trial can start now, beside `reserved` other trials that are to start.

    The engine must be ready, and neither its slots nor the limit may be exhausted.
    """
    each, most = run.settings.slots_per_trial, run.slot_limit
    used, need = each * len(run.by_key), each * (1 + reserved)
    return run.engine.ready and run.engine.free_slots() >= need and (most is None or used + need <= most)


def _prepared(run: RunnerState, trial: LiveTrial, point: ResumePoint | None) -> tuple[Job, TrialProcess, int]:
    """Return the job of a trial's next start, the record of its processes, and the number of the newest attempt so far.

    Nothing of the trial is changed. Raise EngineError if its working directory cannot be created.
    """
    attempts = run.writer.query(lambda store: store.attempts(trial.id)) if trial.runs else []
    number = trial.runs + 1
    key = allocation_key(run.experiment.id, trial, number)
    hook = run.hook
    directory = _work_dir(run, trial)
    checkpoint, steps = (trial.source_checkpoint_id, 0) if point is None else point
    config = run.settings.config
    environment = trial_environment(
        experiment_id=run.experiment.id,
        config=config,
        trial=trial,
        run=number,
        key=key,
        latest_checkpoint=checkpoint,
        steps_completed=steps,
        slots=run.settings.slots_per_trial,
        store_place=run.worker_store_place,
        time_metric=run.settings.time_metric,
        variables=user_variables(config) if hook is None else hook.variables(config, directory),
    )
    directory = directory if hook is None else hook.inside(directory)
    process = TrialProcess(
        key,
        # On other machines it is known when they have made it.
        directory="" if run.engine.spans_machines else str(directory),
        attempts_before=len(attempts),
        # The environment contains secrets of the user that the configuration does not.
        mask=run.mask.with_secrets_of(environment),
    )
    job = Job(key, run.settings.command, environment, directory, run.settings.slots_per_trial)
    return job, process, max((attempt.number for attempt in attempts), default=0)


def _record_nodes(run: RunnerState, trial: LiveTrial, process: TrialProcess) -> None:
    """Record on which nodes a trial runs, in its row and in its log, where it stays readable after a restart."""
    nodes = run.engine.where(process.key)
    run.commit(trials=(trial.place_on(nodes),))
    text = f"running on {nodes_text(nodes)}"
    run.logs.keep(trial, Line(process.key, 0, "stderr", "INFO", text, time.time()))


def _work_dir(run: RunnerState, trial: LiveTrial) -> Path:
    """Return the working directory of a trial, which is created if this machine runs it."""
    if run.engine.spans_machines:
        # Its nodes create their own, see `node_setup.py`.
        return Path(str(trial.id))
    try:
        code = run.files.code if run.hook is None else run.hook.work
        return run.files.place or make_work_dir(code, run.files.work_dir(trial.id))
    except OSError as error:
        raise EngineError(f"its working directory cannot be made: {error.strerror or error}") from error


def _log_hook(run: RunnerState, trial: LiveTrial) -> None:
    """Store the startup hook's output before the lines of the first trial that starts after it."""
    if run.hook is not None and (lines := run.hook.output()):
        for written, text in lines:
            run.logs.keep_hook_line(trial, Line("", 0, "stderr", None, text, written))
        run.hook = run.hook.mark_logged()


def _queue_again(run: RunnerState, trial: LiveTrial) -> None:
    """Queue a trial again that could not be started; this does not count as a restart."""
    if trial.process is not None:
        del run.by_key[trial.process.key]
        run.commit(trials=(trial.start_failed(),))
