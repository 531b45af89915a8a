"""The log lines of trials: the options that select them, and how they are read, printed and followed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import explain_unused
from determined.cli.display.json_rows import log_plain
from determined.cli.display.output import Form, json_line
from determined.cli.display.safe_text import log_line
from determined.cli.display.times import parse_time, time_text, with_utc
from determined.cli.selection.arguments import ID, Count
from determined.cli.store_access import retry_while_unavailable
from determined.store.log_reader import PAGE, POLLING_SECONDS, LogReader
from determined.store.records import LOG_LEVELS, LogFilter
from determined.store.states import EXPERIMENT_ENDED, TRIAL_ENDED

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.records import Log, LogFilter
    from determined.store.store import Store

Found = tuple[int, "Log"]  # the trial's id, and a line of its log
_NO_CLUSTER = "trials run as processes of this machine, and all lines are their own"


@dataclass(frozen=True)
class LogChoice:
    """The lines to show, the maximum number of them, and whether to wait for more."""

    follow: bool
    head: int | None
    tail: int | None
    only: LogFilter


def with_log_choice(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select log lines to a command, which gets them as the argument `choice`."""

    @click.option("-f", "--follow", is_flag=True, help="Follow new lines until the end.")
    @click.option("--head", type=Count(min=1), metavar="N", help="Only the first N lines.")
    @click.option("--tail", type=Count(min=1), metavar="N", help="Only the last N lines.")
    @click.option("--rank-id", "ranks", type=ID, multiple=True, help="Only lines of this rank (repeatable).")
    @click.option(
        "--level", type=click.Choice(LOG_LEVELS, case_sensitive=False), help="Only lines of this level or above."
    )
    @click.option("--search", "text", metavar="TEXT", help="Only lines that contain this text.")
    @click.option("--timestamp-before", "before", metavar="TIME", help="Only lines written before this time.")
    @click.option("--timestamp-after", "after", metavar="TIME", help="Only lines written after this time.")
    @click.option(
        "--stdtype",
        "streams",
        type=click.Choice(["stdout", "stderr"]),
        multiple=True,
        help="Only lines from this stream.",
    )
    @click.option("--source", "sources", multiple=True, help="Accepted for old command lines.")
    @click.option("--agent-id", "agents", multiple=True, help="Accepted for old command lines.")
    @click.option("--container-id", "containers", multiple=True, help="Accepted for old command lines.")
    @with_utc
    @wraps(command)
    def choosing(
        *args: Any,
        follow: bool,
        head: int | None,
        tail: int | None,
        ranks: tuple[int, ...],
        level: str | None,
        text: str | None,
        before: str | None,
        after: str | None,
        streams: tuple[str, ...],
        sources: tuple[str, ...],
        agents: tuple[str, ...],
        containers: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        if head is not None and (tail is not None or follow):
            raise click.UsageError("--head excludes --tail and --follow")
        for option, given in (("--source", sources), ("--agent-id", agents), ("--container-id", containers)):
            explain_unused(option, given, _NO_CLUSTER)
        choice = LogChoice(
            follow=follow,
            head=head,
            tail=tail,
            only=LogFilter(
                ranks=tuple(dict.fromkeys(ranks)),
                streams=tuple(dict.fromkeys(streams)),
                level=level,
                text=text,
                before=None if before is None else parse_time("--timestamp-before", before),
                after=None if after is None else parse_time("--timestamp-after", after),
            ),
        )
        return command(*args, choice=choice, **kwargs)

    return choosing


def format_line(text: str, rank: int, written: float, trial_id: int | None = None) -> str:
    """Return a log line with its time and rank; `trial_id` is given if lines of several trials are shown."""
    trial = "" if trial_id is None else f" [trial {trial_id}]"
    return f"[{time_text(written)}]{trial} [rank={rank}] {log_line(text)}"


def print_log(
    store: Store,
    trials: Callable[[], list[int]],
    choice: LogChoice,
    *,
    may_grow: Callable[[], bool],
    name_trials: bool,
    form: Form,
) -> int:
    """Print the selected lines of the logs of these trials, and return how many there were.

    With `choice.follow`, poll until `may_grow` returns False; `trials` is called at every poll, as new ones may start.
    """
    log = _Reader(store, trials, choice.only, finished_only=choice.follow)
    printed = _print(log.last_lines(choice.tail) if choice.tail else log.new_lines(choice.head), name_trials, form)
    follow = choice.follow
    while follow:
        # Checked before reading, so that lines written until then are still printed.
        follow = retry_while_unavailable(may_grow)
        printed += _print(log.new_lines(), name_trials, form)
        if follow:
            time.sleep(POLLING_SECONDS)
    return printed


class _Reader:
    """Reads the logs of trials together, each time from where it stopped before."""

    def __init__(
        self, store: Store, trials: Callable[[], list[int]], only: LogFilter, *, finished_only: bool = False
    ) -> None:
        self._store = store
        self._trials = trials
        self._only = only
        self._finished_only = finished_only
        self._readers: dict[int, LogReader] = {}  # by trial

    def new_lines(self, most: int | None = None) -> Iterator[Found]:
        """Return the first `most` unread lines, in the order in which they reached the store."""
        per_page = PAGE if most is None else min(most, PAGE)
        return islice(self._merged(lambda reader: reader.new_lines(per_page)), most)

    def last_lines(self, count: int) -> Iterator[Found]:
        """Return the last `count` lines of all trials together."""
        # Each trial returns its own last lines; of these the last ones count.
        return iter(deque(self._merged(lambda reader: reader.last_lines(count)), maxlen=count))

    def _merged(self, lines_of: Callable[[LogReader], Iterable[Log]]) -> Iterator[Found]:
        """Return lines of all trials in the order in which they reached the store."""
        trials = retry_while_unavailable(self._trials)
        found = [_of_trial(trial_id, lines_of(self._reader(trial_id))) for trial_id in trials]
        # By id, which does not depend on clocks.
        return merge(*found, key=lambda line: line[1].id)

    def _reader(self, trial_id: int) -> LogReader:
        if trial_id not in self._readers:
            self._readers[trial_id] = LogReader(
                self._run_query, trial_id, self._only, finished_only=self._finished_only
            )
        return self._readers[trial_id]

    def _run_query(self, query: Callable[[Store], list[Log]]) -> list[Log]:
        return retry_while_unavailable(lambda: query(self._store))


def _of_trial(trial_id: int, lines: Iterable[Log]) -> Iterator[Found]:
    return ((trial_id, line) for line in lines)


def _print(lines: Iterable[Found], name_trials: bool, form: Form) -> int:
    """Print lines and return how many.

    They are printed in blocks, because a call of `click.echo` costs the same for one line as for many.
    """
    lines = iter(lines)
    printed = 0
    while some := list(islice(lines, PAGE)):
        if form == "json":
            click.echo("\n".join(json_line(log_plain(line, trial_id)) for trial_id, line in some))
        else:
            shown = [
                format_line(line.text, line.rank, line.written, trial_id if name_trials else None)
                for trial_id, line in some
            ]
            click.echo("\n".join(shown), color=True)  # keep colours for files and pipes, where click would remove them
        printed += len(some)
    return printed


def no_lines_text(store: Store, experiment: Experiment, trials: Sequence[Trial]) -> str:
    """Return one line about the log of these trials of an experiment, none of whose lines was printed."""
    if any(store.newest_log(trial.id) for trial in trials):
        return "No line matches the given options."
    if len(trials) != 1:
        return _of_experiment(store, experiment, trials)
    (trial,) = trials
    if trial.state not in TRIAL_ENDED and trial.started is None:
        return f"Trial {trial.id} has not started yet ({_waiting(store, experiment)})."
    if trial.started is None:
        return f"Trial {trial.id} ended before it started ({trial.state})."
    return _printed_nothing(f"Trial {trial.id}", experiment, has_ended=trial.state in TRIAL_ENDED)


def _of_experiment(store: Store, experiment: Experiment, trials: Sequence[Trial]) -> str:
    """Return why the logs of several trials of an experiment have no lines."""
    name = f"Experiment {experiment.id}"
    if any(trial.started is not None for trial in trials):
        return _printed_nothing(name, experiment, has_ended=experiment.state in EXPERIMENT_ENDED)
    if experiment.state in EXPERIMENT_ENDED:
        return f"{name} ended before a trial started ({experiment.state})."
    return f"No trial of experiment {experiment.id} has started yet ({_waiting(store, experiment)})."


def _printed_nothing(name: str, experiment: Experiment, *, has_ended: bool) -> str:
    """Return the line for a trial or an experiment that has started, but has no output."""
    if not experiment.is_standalone:
        return f"{name} printed nothing." if has_ended else f"{name} has not printed anything yet. -f waits for output."
    so_far = "No output of" if has_ended else "No output yet of"
    return (
        f"{so_far} {name[0].lower()}{name[1:]} is stored: it printed nothing, or storing was disabled "
        "(store_output=False, DET_STORE_OUTPUT=0)."
    )


def _waiting(store: Store, experiment: Experiment) -> str:
    """Return why a trial of an experiment has not started."""
    if experiment.state == "PAUSED":
        return f"the experiment is PAUSED; resume with: det experiment activate {experiment.id}"
    if store.queue.find(experiment.id) is not None:
        return "the experiment is in the queue; see: det queue"
    return f"the experiment is {experiment.state}"
