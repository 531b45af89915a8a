"""Detect errors that every trial and attempt would repeat, so that no time is wasted on them.

Three rules: a searcher metric that is not reported ends the experiment; an attempt that fails exactly like the one
before, both without any report, ends its trial; and if that happens to the first trials with the same error, the
experiment ends.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable

from determined.engines.base import Exited
from determined.engines.command import Harness
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.process import TrialProcess

TWICE = "; not retried: same error twice"

_FEWEST_TRIALS = 3  # trials that must fail with the same error before the experiment ends
_PYTHON_FAILED = 1  # exit code of Python after an uncaught exception
_EXCEPTION = re.compile(r"^((?:\w+\.)*\w+)(?:: .*)? \(.+, line \d+\)$", re.DOTALL)
# Names of OSError subclasses in common libraries: only the text of a traceback is known here.
_OS_ERRORS = {"URLError", "HTTPError", "ConnectTimeout", "ReadTimeout", "SSLError", "ProxyError"}
# Texts that are recorded before and after an error, and reasons about the searcher metric.
_SHARED = re.compile(r"^the first \d+ trials failed with the same error: ")
_ADDED = re.compile(r"(; tried \d+ times|; not retried: [^;]*)$")
_NOT_REPORTED = re.compile(
    r"(?:Metric .* is not reported; reported: (.+)|No trial has reported the searcher metric .*)$"
)
_NO_NAMES = "none"
_COUNTERS = ("batches", "epochs")
_MEMORY_ERRORS = {"MemoryError", "OutOfMemoryError"}


def repeatable_error(exited: Exited, process: TrialProcess) -> str | None:
    """Return the error of an attempt, with its place, if the next attempt is likely to fail in the same way.

    Files, networks, memory and signals may behave differently the next time; so may a program that ends without an
    exception.
    """
    was_killed = exited.signal is not None or exited.out_of_memory or process.stopping.kill_reason is not None
    # Code 1 is what Python returns for an exception; other codes are chosen by the program.
    if exited.code != _PYTHON_FAILED or was_killed:
        return None
    error = process.log.last_error
    # The place is part of the error: the same message from another line may be another cause.
    found = _EXCEPTION.match(error)
    if found is None or _may_pass(found[1].rpartition(".")[2]) or "out of memory" in error:
        return None
    return error


def shared_error(run: RunnerState) -> str | None:
    """Return why the experiment ends if its first max(3, slots) trials all failed twice with the same error."""
    # As many as start at once, so that the verdict does not depend on which of them fails first.
    count = max(_FEWEST_TRIALS, run.engine.slots)
    first = [run.trials.get(number) for number in range(count)]
    errors = {None if trial is None else trial.failures.repeated_error for trial in first}
    error = errors.pop() if len(errors) == 1 else None
    return None if error is None else f"the first {count} trials failed with the same error: {error}"


def is_error_of_program(reason: str) -> bool:
    """Return whether a recorded reason is an exception that the same code would raise again.

    The reason is that of a trial, or of an experiment whose first trials failed alike.
    """
    error = _ADDED.sub("", _SHARED.sub("", reason))
    found = _EXCEPTION.match(error)
    return found is not None and not _may_pass(found[1].rpartition(".")[2]) and "out of memory" not in error


def unreported_metric(reason: str) -> list[str] | None:
    """Return the reported metrics if a recorded reason says that the searcher metric is not among them, else None."""
    found = _NOT_REPORTED.match(reason)
    if found is None:
        return None
    return [] if found[1] in (None, _NO_NAMES) else found[1].split(", ")


def note_missing_metric(run: RunnerState, trial: LiveTrial, *, ended: bool) -> None:
    """Record that a trial does not report the searcher metric, unless this or another trial has reported it.

    A trial class is judged at its first validation, because it reports the same metrics every time. Other programs may
    report a metric late and are judged when they end. `det run` gives its command as a list and a metric that its user
    may not have chosen; that metric only determines the best checkpoint, so nothing is recorded.
    """
    settings = run.settings
    if run.metric_is_reported or run.missing_metric is not None:
        return
    is_program = not isinstance(settings.command, Harness)
    # By the type of the entrypoint: `det run` stores a list, configurations usually a text.
    by_det_run = settings.config.searcher.method.one_trial and isinstance(settings.config.entrypoint, list)
    if by_det_run or (is_program and not ended):
        return
    names = _validation_metrics(run, trial)
    if settings.metric in names or any(settings.metric in _validation_metrics(run, t) for t in run.trials.values()):
        run.metric_is_reported = True
    elif names:
        run.missing_metric = f"Metric {settings.metric!r} is not reported; reported: {shown_names(names)}"
        trial.reveal_failure(run.missing_metric)


def shown_names(names: Iterable[str]) -> str:
    """Return metric names for a message, without the counters that are added to every validation."""
    return ", ".join(name for name in names if name not in _COUNTERS) or _NO_NAMES


def _validation_metrics(run: RunnerState, trial: LiveTrial) -> list[str]:
    """Return the names of all validation metrics that a trial reported, in order."""
    # Also of earlier attempts: the program may have reported the metric before a restart.
    rows = run.writer.query(lambda store: store.metrics(trial.id, "validation", archived=True))
    return list(dict.fromkeys(name for row in rows for name in row.metrics))


def _may_pass(name: str) -> bool:
    """Return whether an exception of this name may not occur in the next attempt."""
    # Only the name is known, so that built-in exceptions are looked up by it.
    known = getattr(builtins, name, None)
    is_os_error = isinstance(known, type) and issubclass(known, OSError)
    return is_os_error or name in _OS_ERRORS or name in _MEMORY_ERRORS
