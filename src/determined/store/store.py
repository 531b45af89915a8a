"""`Store`: every read and write that the rest of the library makes on the database of runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from determined.errors import NotFoundException
from determined.stop_request import StopRequest
from determined.store.databases.base import Database
from determined.store.databases.migrate import migrate
from determined.store.records import (
    ALL_LINES,
    Attempt,
    Log,
    LogFilter,
    Metric,
    Request,
    Run,
    SharedMetric,
    StoredCheckpoint,
)
from determined.store.sql import columns

if TYPE_CHECKING:
    from determined.store.rows import AttemptStart, BegunAttempt, MetricRow, Row
    from determined.store.substores.experiments import Experiments
    from determined.store.substores.lineage import Lineage
    from determined.store.substores.outputs import Outputs
    from determined.store.substores.overview import Overview
    from determined.store.substores.owners import Owners
    from determined.store.substores.publishing import Publishing
    from determined.store.substores.queue import Queue
    from determined.store.substores.registry import Registry
    from determined.store.substores.report_texts import ReportReader
    from determined.store.substores.upkeep import Upkeep


class Store:
    """The database of runs, as one connection.

    A call returns after its changes are committed. Writing the same rows again changes nothing, so a call whose answer
    was lost can be retried. A store may be used by one thread at a time.

    Opening a store creates its tables or migrates them to the schema version of this library.
    """

    # Queries are imported where they are used: each program and command needs few of them, and a user waits for the
    # imports of every `det` command.

    def __init__(self, database: Database) -> None:
        self._database = database
        try:
            migrate(database)
        # The caller gets no object that it could close.
        except BaseException:
            database.close()
            raise

    @property
    def place(self) -> str:
        """Return the location of the store for messages, without a password."""
        return self._database.place

    @cached_property
    def experiments(self) -> Experiments:
        """The queries about experiments, including experiments with a search."""
        from determined.store.substores.experiments import Experiments

        return Experiments(self._database)

    @cached_property
    def registry(self) -> Registry:
        """The queries about models and the checkpoints registered as their versions."""
        from determined.store.substores.registry import Registry

        return Registry(self._database)

    @cached_property
    def lineage(self) -> Lineage:
        """The queries about which runs used which checkpoints."""
        from determined.store.substores.lineage import Lineage

        return Lineage(self._database)

    @cached_property
    def publishing(self) -> Publishing:
        """The queries about checkpoints that are in their storage but not yet recorded as a row."""
        from determined.store.substores.publishing import Publishing

        return Publishing(self._database)

    @cached_property
    def outputs(self) -> Outputs:
        """The queries about files that trials upload as results in addition to their checkpoints."""
        from determined.store.substores.outputs import Outputs

        return Outputs(self._database)

    @cached_property
    def owners(self) -> Owners:
        """The queries about which trial a checkpoint or an upload belongs to."""
        from determined.store.substores.owners import Owners

        return Owners(self._database)

    @cached_property
    def queue(self) -> Queue:
        """The queries about experiments that wait for slots on a machine."""
        from determined.store.substores.queue import Queue

        return Queue(self._database)

    @cached_property
    def reports(self) -> ReportReader:
        """The queries that read the reports of trials for charts."""
        from determined.store.substores.report_texts import ReportReader

        return ReportReader(self._database)

    @cached_property
    def overview(self) -> Overview:
        """The queries that read many rows at once, for tables."""
        from determined.store.substores.overview import Overview

        return Overview(self._database)

    @cached_property
    def upkeep(self) -> Upkeep:
        """The queries that edit or delete experiments and checkpoints after they were created."""
        from determined.store.substores.upkeep import Upkeep

        return Upkeep(self._database)

    def begin_attempt(self, start: AttemptStart) -> BegunAttempt:
        """Record the start of an attempt and return its trial, number and metadata.

        With an allocation, the attempt belongs to the trial that the allocation names. Otherwise the trial that saved
        the given checkpoint is continued, or the trial that the same run worked on before; if there is neither, a new
        experiment with one trial is created. A trial whose newest attempt is still running, or that belongs to a
        search, is not continued: the new trial records it as its parent. Metrics after the start step of the attempt
        are archived.

        A run that names its trial continues that trial from its newest checkpoint. `StoreError` if another process is
        running the trial.
        """
        from determined.store.sql.attempts import begin_attempt

        return begin_attempt(self._database, start)

    def newest_attempt(self, run_key: str) -> tuple[str, BegunAttempt] | None:
        """Return the newest attempt whose key is `<run_key>-<number>`, together with its key, or None."""
        from determined.store.sql.attempts import newest_attempt

        return newest_attempt(self._database, run_key)

    def write(self, rows: Sequence[Row]) -> None:
        """Write all rows in one transaction.

        A metric replaces the report of an earlier attempt for the same group, step and rank; reports of the same
        attempt are merged.
        """
        from determined.store.sql.row_writing import write_rows

        with self._database.transaction():
            write_rows(self._database, rows)

    def claim_shared_metric(self, rows: Sequence[MetricRow]) -> SharedMetric | None:
        """Return a metric in these stored rows that another rank of the attempt also reported, or None.

        Only one caller per attempt gets a result, so the warning about it is logged once.
        """
        from determined.store.sql.ranks import claim_shared_metric

        return claim_shared_metric(self._database, rows)

    def runs(self, limit: int = 1000) -> list[Run]:
        """Return the trials with their newest attempts, newest first."""
        from determined.store.sql.runs import read_runs

        return read_runs(self._database, limit)

    def attempts(self, trial_id: int) -> list[Attempt]:
        """Return the attempts of a trial, oldest first."""
        found = self._database.execute(
            f"SELECT {columns.ATTEMPT} FROM attempts a WHERE a.trial_id = ? ORDER BY a.number", [trial_id]
        )
        return [columns.attempt(row) for row in found]

    def has_reports(self, trial_id: int, attempts: set[int]) -> bool:
        """Return whether one of these attempts reported a metric, saved a checkpoint or uploaded an output."""
        marks = ", ".join("?" * len(attempts))
        # Archived metrics and deleted checkpoints count: the question is whether the attempt got as far as a report.
        for table in ("metrics", "overwritten_metrics", "samples", "checkpoints", "uploads"):
            condition = f"trial_id = ? AND attempt IN ({marks})"
            if self._database.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", [trial_id, *attempts]):
                return True
        return False

    def metrics(self, trial_id: int, group: str | None = None, *, archived: bool = False) -> list[Metric]:
        """Return the reports of a trial in the order they were made, one for each group, step and rank.

        If several ranks reported the same metric for the same group and step, only the value of the lowest rank is
        returned. With `archived`, every stored row is returned unchanged, including the archived ones (steps that a
        later attempt repeated).
        """
        from determined.store.sql.metrics import read_metrics

        return read_metrics(self._database, trial_id, group, archived=archived)

    def samples(self, trial_id: int, group: str | None = None) -> list[Metric]:
        """Return the metrics that a trial reported without a step, in the order they were made."""
        from determined.store.sql.metrics import read_samples

        return read_samples(self._database, trial_id, group)

    def find_metric(self, trial_id: int, group: str, steps_completed: int, rank: int = 0) -> Metric | None:
        """Return the report of one rank for a group and step, archived or not, or None."""
        from determined.store.sql.metrics import find_metric

        return find_metric(self._database, trial_id, group, steps_completed, rank)

    def metadata(self, trial_id: int) -> dict[str, Any]:
        """Return the metadata that the ranks reported for a trial, merged. For a shared key the lowest rank's value is
        taken.
        """
        from determined.store.sql.ranks import merged_metadata

        ((own, of_ranks),) = self._database.execute(
            "SELECT metadata, rank_metadata FROM trials WHERE id = ?", [trial_id]
        )
        return merged_metadata(own, of_ranks)

    def checkpoints(self, trial_id: int) -> list[StoredCheckpoint]:
        """Return the checkpoints of a trial, newest first."""
        found = self._database.execute(
            f"{columns.SELECT_CHECKPOINTS} WHERE c.trial_id = ? ORDER BY c.id DESC",
            [trial_id],
        )
        return [columns.checkpoint(row) for row in found]

    def latest_checkpoints(
        self, identity: str | None = None, program: str | None = None, limit: int = 100
    ) -> list[StoredCheckpoint]:
        """Return the checkpoints of standalone runs that are not deleted: newest run first, and newest first within a
        run.

        With `identity`, only checkpoints saved by attempts with this identity. Attempts recorded by older versions have
        no identity; `program` adds the checkpoints that such attempts of this program saved.
        """
        from determined.store.sql.runs import latest_checkpoints

        return latest_checkpoints(self._database, identity, program, limit)

    def identities(self, program: str) -> list[str]:
        """Return, sorted, the identities of a program's standalone runs that have checkpoints.

        An identity says whose runs belong together: `latest_checkpoint='latest'` finds only checkpoints of its own
        identity.
        """
        from determined.store.sql.runs import identities

        return identities(self._database, program)

    def set_checkpoint_deleted(self, checkpoint_id: str) -> None:
        """Record that all files of a checkpoint were deleted.

        A checkpoint that is marked as deleted but still lists files is one whose deletion has not finished.
        """
        with self._database.transaction():
            self._database.execute(
                "UPDATE checkpoints SET state = 'DELETED', resources = '{}' WHERE uuid = ?", [checkpoint_id]
            )

    def logs(
        self,
        trial_id: int,
        after: int = 0,
        limit: int | None = None,
        *,
        only: LogFilter = ALL_LINES,
        tail: int | None = None,
    ) -> list[Log]:
        """Return the log lines of a trial that match the filter and have an id above `after`, in order.

        At most `limit` lines, or the last `tail`.
        """
        from determined.store.sql.logs import read_logs

        return read_logs(self._database, trial_id, after, limit, only, tail)

    def newest_log(self, trial_id: int) -> int:
        """Return the id of the trial's newest line; 0 if it has none."""
        from determined.store.sql.logs import newest_log

        return newest_log(self._database, trial_id)

    def add_request(self, trial_id: int, kind: StopRequest) -> int:
        """Add a request to a trial (for example to stop) and return the id of the request."""
        from determined.store.sql.requests import last_request

        # Exclusive, so that ids become visible in order: a reader that saw a later id first would skip the earlier one.
        with self._database.transaction(exclusive=True):
            if not self._database.execute("SELECT 1 FROM trials WHERE id = ?", [trial_id]):
                raise NotFoundException.of("trial", trial_id)
            self._database.execute(
                "INSERT INTO requests (trial_id, kind, created) VALUES (?, ?, ?)", [trial_id, kind, time.time()]
            )
            return last_request(self._database, trial_id)

    def requests(self, trial_id: int, after: int = 0) -> list[Request]:
        """Return the requests to a trial with an id above `after`, in order."""
        from determined.store.sql.requests import requests_to

        return requests_to(self._database, trial_id, after)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()
