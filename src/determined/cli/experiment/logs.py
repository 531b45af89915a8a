"""`det experiment logs`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

import click

from determined.cli.experiment.wait import ENDED
from determined.cli.groups import Command
from determined.cli.holders import is_abandoned
from determined.cli.log_lines import format_line
from determined.cli.opened import opened_store, patiently
from determined.cli.output import Form, print_json_line, with_json
from determined.cli.plain import log_plain
from determined.cli.render import some
from determined.cli.zone import with_utc
from determined.errors import DeterminedError
from determined.store.records import LOG_LEVELS

if TYPE_CHECKING:
    from determined.store.base import Store
    from determined.store.records import Log

_PAGE = 1000
POLLING_SECONDS = 0.5

Found = tuple[int, "Log"]  # the trial's id, and a line of its log
Source = tuple[int, "int | None"]  # a trial, and one rank of it or all


@click.command(cls=Command)
@click.argument("experiment_id", metavar="ID", type=int)
@click.option("--trial", "trial_id", type=int, metavar="TRIAL_ID", help="Of this trial; without it the first one.")
@click.option("--all", "everything", is_flag=True, help="Of all trials, in the order of writing.")
@click.option("-f", "--follow", is_flag=True, help="Go on as new lines are written, until the experiment stops.")
@click.option("--head", type=click.IntRange(min=1), metavar="N", help="Only the first N lines.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N lines.")
@click.option("--rank-id", "ranks", type=int, multiple=True, help="Only of this rank; may be repeated.")
@click.option(
    "--level", type=click.Choice(LOG_LEVELS, case_sensitive=False), help="Only lines of this level or above it."
)
@with_utc
@with_json
def logs(
    experiment_id: int,
    trial_id: int | None,
    everything: bool,
    follow: bool,
    head: int | None,
    tail: int | None,
    ranks: tuple[int, ...],
    level: str | None,
    form: Form,
) -> None:
    """Show what the trials of an experiment wrote.

    With --json each line is an object on a line of its own. With --level, lines that name none are left out.

    \b
    Example: det experiment logs 3 --all --follow
    """
    for one, other in ((trial_id is not None, everything), (head, tail), (head, follow)):
        if one and other:
            raise click.UsageError("--trial excludes --all; --head excludes --tail and --follow")
    with opened_store() as store:
        log = Reader(store, experiment_id, trial_id, everything, ranks, level)
        print_lines(islice(log.new_lines(), head) if tail is None else log.last_lines(tail), everything, form)
        while follow:
            follow = log.may_grow()  # asked before reading: what was written until then is read now
            print_lines(log.new_lines(), everything, form)
            if follow:
                time.sleep(POLLING_SECONDS)


class Reader:
    """The log of the trials that somebody wants to see, read from where it was left."""

    def __init__(
        self,
        store: Store,
        experiment_id: int,
        trial_id: int | None,
        everything: bool,
        ranks: tuple[int, ...],
        level: str | None,
        wanted: Callable[[Log], bool] | None = None,
    ) -> None:
        self._store = store
        self._experiment_id = experiment_id
        self._only = trial_id
        self._everything = everything
        self._ranks: tuple[int | None, ...] = tuple(dict.fromkeys(ranks)) or (None,)
        self._level = level
        self._wanted = wanted
        self._after: dict[Source, int] = {}
        trials = [trial.id for trial in store.experiments.trials(experiment_id)]
        if trial_id is not None and trial_id not in trials:
            shown = some([str(trial) for trial in trials])
            raise DeterminedError(
                f"trial {trial_id} is not one of experiment {experiment_id}, whose trials are: {shown or 'none yet'}"
            )

    def new_lines(self) -> Iterator[Found]:
        """In the order in which they reached the store."""
        lines = merge(*(self._pages(source) for source in self._sources()), key=lambda found: found[1].id)
        wanted = self._wanted
        return lines if wanted is None else (found for found in lines if wanted(found[1]))

    def last_lines(self, count: int) -> Iterator[Found]:
        if self._wanted is not None:  # of which the store knows nothing
            return iter(deque(self.new_lines(), maxlen=count))
        lines = merge(*(self._read(source, tail=count) for source in self._sources()), key=lambda found: found[1].id)
        return iter(deque(lines, maxlen=count))

    def may_grow(self) -> bool:
        row = patiently(lambda: self._store.experiments.get(self._experiment_id))
        return row.state not in (*ENDED, "PAUSED") and not is_abandoned(row)

    def _sources(self) -> list[Source]:
        if self._only is not None:
            trials = [self._only]
        else:
            known = patiently(lambda: self._store.experiments.trials(self._experiment_id))
            trials = [trial.id for trial in known]
            trials = trials if self._everything else trials[:1]
        return [(trial_id, rank) for trial_id in trials for rank in self._ranks]

    def _pages(self, source: Source) -> Iterator[Found]:
        while page := self._read(source, limit=_PAGE):
            yield from page

    def _read(self, source: Source, *, limit: int | None = None, tail: int | None = None) -> list[Found]:
        trial_id, rank = source
        after = self._after.get(source, 0)
        lines = patiently(lambda: self._store.logs(trial_id, after, limit, rank=rank, level=self._level, tail=tail))
        if lines:
            self._after[source] = lines[-1].id
        return [(trial_id, line) for line in lines]


def print_lines(lines: Iterator[Found], everything: bool, form: Form) -> None:
    for trial_id, line in lines:
        if form == "json":
            print_json_line(log_plain(line, trial_id))
        else:
            shown = format_line(line.text, line.rank, line.written, trial_id if everything else None)
            click.echo(shown, color=True)  # a file gets the line as it was written
