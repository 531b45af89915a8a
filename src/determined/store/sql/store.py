"""SQL implementation of the `Store` interface for all databases."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from determined.errors import NotFoundException, StoreError
from determined.stop_request import StopRequest
from determined.store import process
from determined.store.databases.base import Database
from determined.store.databases.migrate import migrate
from determined.store.ranks import claim_shared_metric, counting, merged_metadata
from determined.store.records import (
    ALL_LINES,
    Attempt,
    AttemptStart,
    BegunAttempt,
    Checkpoint,
    CheckpointRow,
    ComparedMetricRow,
    EndRow,
    Log,
    LogFilter,
    LogRow,
    MetadataRow,
    Metric,
    MetricRow,
    PublishingRow,
    Request,
    Row,
    Run,
    SharedMetric,
    StatusRow,
)
from determined.store.sql import columns
from determined.store.sql.columns import text
from determined.store.sql.logs import newest_log, read_logs
from determined.store.sql.reports import archive_after, write_reports
from determined.store.sql.standalone_runs import add_trial, find_named_trial, newest_saved_step, set_metric

if TYPE_CHECKING:
    from determined.store.experiments import Experiments
    from determined.store.lineage import Lineage
    from determined.store.outputs import Outputs
    from determined.store.publishing import Publishing
    from determined.store.queue_records import Queue
    from determined.store.registry import Registry
    from determined.store.upkeep import Upkeep

R = TypeVar("R")

_SAMPLES = "samples (trial_id, attempt, rank, sequence, metric_group, body, reported)"
_LOGS = "logs (trial_id, attempt, rank, sequence, stream, body, written, level)"
_PUBLISHING = "publishing (uuid, trial_id, attempt, storage, since)"
_CHECKPOINTS = "checkpoints (uuid, trial_id, attempt, steps_completed, metadata, resources, storage, state, reported)"


class SqlStore:
    """A store in a database. The methods are documented in `base.py`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise

    @property
    def place(self) -> str:
        return self._database.place

    # Each of these is imported when it is used: a program that trains needs few of them.

    @cached_property
    def experiments(self) -> Experiments:
        from determined.store.sql.experiments import SqlExperiments

        return SqlExperiments(self._database)

    @cached_property
    def registry(self) -> Registry:
        from determined.store.sql.registry import SqlRegistry

        return SqlRegistry(self._database)

    @cached_property
    def lineage(self) -> Lineage:
        from determined.store.sql.lineage import SqlLineage

        return SqlLineage(self._database)

    @cached_property
    def publishing(self) -> Publishing:
        from determined.store.publishing import Publishing

        return Publishing(self._database)

    @cached_property
    def outputs(self) -> Outputs:
        from determined.store.sql.outputs import SqlOutputs

        return SqlOutputs(self._database)

    @cached_property
    def queue(self) -> Queue:
        from determined.store.sql.queue import SqlQueue

        return SqlQueue(self._database)

    @cached_property
    def upkeep(self) -> Upkeep:
        from determined.store.sql.upkeep import SqlUpkeep

        return SqlUpkeep(self._database)

    def begin_attempt(self, start: AttemptStart) -> BegunAttempt:
        execute = self._database.execute
        # Exclusive, otherwise two processes could both find a trial idle and continue it.
        with self._database.transaction(exclusive=True):
            known = execute("SELECT trial_id, number FROM attempts WHERE key = ?", [start.key])
            if known:  # a retry after the answer to an earlier call was lost
                return self._begun(*known[0])
            named = find_named_trial(self._database, start)
            trial_id = self._allocated_trial(start) or named or self._trial_to_continue(start)
            if trial_id is None:
                trial_id = self._new_trial(start)
            start_step = newest_saved_step(self._database, trial_id) if named else start.steps_completed
            execute(
                "UPDATE trials SET attempt = attempt + 1, phase = '', progress = NULL, early_exit = NULL, "
                "stop_acknowledged = 0, passed_hparams = ? WHERE id = ?",
                [_passed_hparams(start), trial_id],
            )
            if start.allocation is None:  # clear why the previous attempt failed; for a search the runner does that
                execute("UPDATE trials SET reason = NULL WHERE id = ?", [trial_id])
            ((number,),) = execute("SELECT attempt FROM trials WHERE id = ?", [trial_id])
            execute(
                "INSERT INTO attempts (key, trial_id, number, start_step, host, pid, process_started, run_dir, state, "
                "started, identity, command, git_commit) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?)",
                [
                    start.key,
                    trial_id,
                    number,
                    start_step,
                    text(start.process.host),
                    start.process.pid,
                    start.process.started,
                    text(start.run.run_dir),
                    start.started,
                    _optional_text(start.run.identity),
                    _optional_text(start.run.command),
                    _optional_text(start.run.git_commit),
                ],
            )
            archive_after(self._database, trial_id, start_step)
            return self._begun(trial_id, number)

    def write(self, rows: Sequence[Row]) -> None:
        insert = self._database.insert
        with self._database.transaction():
            write_reports(self._database, rows)
            insert(_SAMPLES, _values(rows, MetricRow, _sample_values), "DO NOTHING")
            insert(_CHECKPOINTS, _values(rows, CheckpointRow, _checkpoint_values), "DO NOTHING")
            insert(_PUBLISHING, _values(rows, PublishingRow, _publishing_values), "DO NOTHING")
            insert(_LOGS, _values(rows, LogRow, _log_values), "DO NOTHING")
            for row in rows:
                if isinstance(row, StatusRow):
                    self._write_status(row)
                elif isinstance(row, MetadataRow):
                    self._write_metadata(row)
                elif isinstance(row, CheckpointRow):
                    # In the same transaction as the checkpoint, which therefore is always in one of the two tables.
                    self._database.execute("DELETE FROM publishing WHERE uuid = ?", [row.uuid])
                elif isinstance(row, EndRow):
                    self._write_end(row)
                elif isinstance(row, ComparedMetricRow):
                    set_metric(self._database, row)

    def runs(self, limit: int = 1000) -> list[Run]:
        found = self._database.execute(
            "SELECT t.experiment_id, t.id, t.parent_id, e.program, t.hparams, t.phase, t.progress, t.metadata, "
            f"t.rank_metadata, t.early_exit, t.stop_acknowledged, t.created, {columns.ATTEMPT} FROM attempts a "
            "JOIN trials t ON t.id = a.trial_id AND t.attempt = a.number JOIN experiments e ON e.id = t.experiment_id "
            "ORDER BY a.id DESC LIMIT ?",
            [limit],
        )
        return [
            Run(
                experiment_id,
                trial_id,
                parent_id,
                program,
                json.loads(hparams),
                phase,
                progress,
                merged_metadata(metadata, rank_metadata),
                early_exit,
                bool(acknowledged),
                created,
                columns.attempt(attempt),
            )
            for (
                experiment_id,
                trial_id,
                parent_id,
                program,
                hparams,
                phase,
                progress,
                metadata,
                rank_metadata,
                early_exit,
                acknowledged,
                created,
                *attempt,
            ) in found
        ]

    def attempts(self, trial_id: int) -> list[Attempt]:
        found = self._database.execute(
            f"SELECT {columns.ATTEMPT} FROM attempts a WHERE a.trial_id = ? ORDER BY a.number", [trial_id]
        )
        return [columns.attempt(row) for row in found]

    def has_reports(self, trial_id: int, attempts: set[int]) -> bool:
        marks = ", ".join("?" * len(attempts))
        for table in ("metrics", "samples", "checkpoints", "uploads"):
            condition = f"trial_id = ? AND attempt IN ({marks})"
            if self._database.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", [trial_id, *attempts]):
                return True
        return False

    def metrics(self, trial_id: int, group: str | None = None, *, archived: bool = False) -> list[Metric]:
        if archived:
            return self._read_metrics("metrics", "step, archived", trial_id, group, "")
        return counting(self._read_metrics("metrics", "step, archived", trial_id, group, "AND archived = 0"))

    def find_metric(self, trial_id: int, group: str, steps_completed: int, rank: int = 0) -> Metric | None:
        found = self._database.execute(
            f"SELECT {columns.METRIC} FROM metrics WHERE trial_id = ? AND metric_group = ? AND step = ? AND rank = ?",
            [trial_id, text(group), steps_completed, rank],
        )
        return columns.metric(found[0]) if found else None

    def claim_shared_metric(self, rows: Sequence[MetricRow]) -> SharedMetric | None:
        return claim_shared_metric(self._database, rows)

    def newest_attempt(self, run_key: str) -> tuple[str, BegunAttempt] | None:
        found = self._database.execute(
            "SELECT key, trial_id, number FROM attempts WHERE key LIKE ? ORDER BY id DESC LIMIT 1", [f"{run_key}-%"]
        )
        return (found[0][0], self._begun(*found[0][1:])) if found else None

    def metadata(self, trial_id: int) -> dict[str, Any]:
        ((own, of_ranks),) = self._database.execute(
            "SELECT metadata, rank_metadata FROM trials WHERE id = ?", [trial_id]
        )
        return merged_metadata(own, of_ranks)

    def samples(self, trial_id: int, group: str | None = None) -> list[Metric]:
        return self._read_metrics("samples", "NULL, 0", trial_id, group, "")

    def checkpoints(self, trial_id: int) -> list[Checkpoint]:
        found = self._database.execute(
            f"SELECT {columns.CHECKPOINT} FROM checkpoints c {columns.VALIDATION_OF_CHECKPOINT} "
            "WHERE c.trial_id = ? ORDER BY c.id DESC",
            [trial_id],
        )
        return [columns.checkpoint(row) for row in found]

    def latest_checkpoints(
        self, identity: str | None = None, program: str | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        chosen: list[tuple[str, str]] = []
        if identity is not None:
            chosen.append(("saver.identity = ?", identity))
        if program is not None:
            chosen.append(("(saver.identity IS NULL AND e.program = ?)", program))
        found = self._database.execute(
            f"SELECT {columns.CHECKPOINT} FROM checkpoints c {columns.VALIDATION_OF_CHECKPOINT} "
            "JOIN trials t ON t.id = c.trial_id "
            "JOIN experiments e ON e.id = t.experiment_id "
            "JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt "
            "JOIN attempts saver ON saver.trial_id = t.id AND saver.number = c.attempt "
            "WHERE e.by_hand = 1 AND c.state = 'ACTIVE' "
            f"{'AND (' + ' OR '.join(condition for condition, _ in chosen) + ')' if chosen else ''} "
            "ORDER BY a.id DESC, c.id DESC LIMIT ?",
            [*(text(value) for _, value in chosen), limit],
        )
        return [columns.checkpoint(row) for row in found]

    def identities(self, program: str) -> list[str]:
        found = self._database.execute(
            "SELECT DISTINCT a.identity FROM attempts a JOIN trials t ON t.id = a.trial_id "
            "JOIN experiments e ON e.id = t.experiment_id "
            "JOIN checkpoints c ON c.trial_id = a.trial_id AND c.attempt = a.number AND c.state = 'ACTIVE' "
            "WHERE e.by_hand = 1 AND e.program = ? AND a.identity IS NOT NULL ORDER BY a.identity",
            [text(program)],
        )
        return [str(identity) for (identity,) in found]

    def set_checkpoint_deleted(self, uuid: str) -> None:
        with self._database.transaction():
            self._database.execute("UPDATE checkpoints SET state = 'DELETED', resources = '{}' WHERE uuid = ?", [uuid])

    def logs(
        self,
        trial_id: int,
        after: int = 0,
        limit: int | None = None,
        *,
        only: LogFilter = ALL_LINES,
        tail: int | None = None,
    ) -> list[Log]:
        return read_logs(self._database, trial_id, after, limit, only, tail)

    def newest_log(self, trial_id: int) -> int:
        return newest_log(self._database, trial_id)

    def add_request(self, trial_id: int, kind: StopRequest) -> int:
        # Exclusive, so that ids become visible in order: a reader that saw a later id first would skip the earlier one.
        with self._database.transaction(exclusive=True):
            if not self._database.execute("SELECT 1 FROM trials WHERE id = ?", [trial_id]):
                raise NotFoundException.of("trial", trial_id)
            self._database.execute(
                "INSERT INTO requests (trial_id, kind, created) VALUES (?, ?, ?)", [trial_id, kind, time.time()]
            )
            return self._last_request(trial_id)

    def requests(self, trial_id: int, after: int = 0) -> list[Request]:
        found = self._database.execute(
            "SELECT id, trial_id, kind, created FROM requests WHERE trial_id = ? AND id > ? ORDER BY id",
            [trial_id, after],
        )
        return [Request(*row) for row in found]

    def close(self) -> None:
        self._database.close()

    def _allocated_trial(self, start: AttemptStart) -> int | None:
        """Return the trial of the start's allocation, or None without one.

        Raise `StoreError` if the runner has started the trial again since, under another allocation.
        """
        if start.allocation is None:
            return None
        trial_id, allocation = start.allocation
        found = self._database.execute("SELECT allocation FROM trials WHERE id = ?", [trial_id])
        if not found:
            raise NotFoundException.of("trial", trial_id)
        if found[0][0] != allocation:
            raise StoreError(
                f"trial {trial_id} was overtaken: it was started again as {found[0][0]!r}, and {allocation!r} may not "
                "report any more"
            )
        return trial_id

    def _trial_to_continue(self, start: AttemptStart) -> int | None:
        """Return the existing trial that a new attempt continues, or None if it needs a new trial."""
        own = None if start.previous is None else start.previous.trial_id
        trial_id = self._trial_of_checkpoint(start.checkpoint)
        if trial_id is None:
            return own
        if trial_id != own and (self._is_managed(trial_id) or self._lives(trial_id)):
            return None
        return trial_id

    def _trial_of_checkpoint(self, uuid: str | None) -> int | None:
        """Return the trial that saved a checkpoint, or None if the checkpoint is unknown."""
        found = self._database.execute("SELECT trial_id FROM checkpoints WHERE uuid = ?", [uuid])
        return found[0][0] if found else None

    def _is_managed(self, trial_id: int) -> bool:
        """Return whether a trial belongs to a search, whose runner alone may start it."""
        ((state,),) = self._database.execute("SELECT state FROM trials WHERE id = ?", [trial_id])
        return state is not None

    def _lives(self, trial_id: int) -> bool:
        """Return whether the newest attempt of a trial is running on this machine."""
        found = self._database.execute(
            f"SELECT {columns.ATTEMPT} FROM attempts a WHERE a.trial_id = ? ORDER BY a.number DESC LIMIT 1", [trial_id]
        )
        newest = columns.attempt(found[0])
        return newest.ended is None and process.is_running(newest.process)

    def _new_trial(self, start: AttemptStart) -> int:
        return add_trial(self._database, start, parent=self._trial_of_checkpoint(start.checkpoint))

    def _begun(self, trial_id: int, number: int) -> BegunAttempt:
        """Return the record of an attempt that was just begun."""
        ((experiment_id, allocation, last_request),) = self._database.execute(
            "SELECT experiment_id, allocation, last_request FROM trials WHERE id = ?", [trial_id]
        )
        # A standalone run ignores all earlier requests. A runner may request a stop before the workers that it started
        # get here, so for a trial of a search only requests before the allocation are ignored.
        if not allocation:
            last_request = self._last_request(trial_id)
        return BegunAttempt(experiment_id, trial_id, number, self.metadata(trial_id), last_request)

    def _last_request(self, trial_id: int) -> int:
        ((last,),) = self._database.execute("SELECT max(id) FROM requests WHERE trial_id = ?", [trial_id])
        return last or 0

    def _write_status(self, row: StatusRow) -> None:
        """Update the status of a trial, unless a newer attempt has begun."""
        self._database.execute(
            "UPDATE trials SET phase = coalesce(?, phase), progress = coalesce(?, progress), "
            "early_exit = coalesce(?, early_exit), stop_acknowledged = stop_acknowledged | ?, "
            "follows_operations = follows_operations | ? WHERE id = ? AND attempt = ?",
            [
                None if row.phase is None else text(row.phase),
                row.progress,
                row.early_exit,
                int(row.stop_acknowledged),
                int(row.follows_operations),
                row.trial_id,
                row.attempt,
            ],
        )

    def _write_metadata(self, row: MetadataRow) -> None:
        """Replace the metadata of one rank, unless a newer attempt has begun."""
        found = self._database.read_locked(
            "SELECT rank_metadata FROM trials WHERE id = ? AND attempt = ?", [row.trial_id, row.attempt]
        )
        if not found:
            return
        column, value = "metadata", json.dumps(row.metadata)
        if row.rank > 0:
            column, value = "rank_metadata", json.dumps({**json.loads(found[0][0]), str(row.rank): row.metadata})
        self._database.execute(f"UPDATE trials SET {column} = ? WHERE id = ?", [value, row.trial_id])

    def _write_end(self, row: EndRow) -> None:
        """Record the end of an attempt. Ranks other than the chief do not overwrite an end that is already recorded."""
        still_open = "" if row.rank == 0 else "AND ended IS NULL"
        self._database.execute(
            "UPDATE attempts SET state = ?, ended = ?, seconds = ?, exit_code = ? "
            f"WHERE trial_id = ? AND number = ? {still_open}",
            [row.state, row.ended, row.seconds, row.exit_code, row.trial_id, row.attempt],
        )
        if row.reason is not None:
            self._database.execute(
                "UPDATE trials SET reason = ? WHERE id = ? AND attempt = ? AND state IS NULL",
                [text(row.reason), row.trial_id, row.attempt],
            )

    def _read_metrics(
        self, table: str, step_and_archived: str, trial_id: int, group: str | None, condition: str
    ) -> list[Metric]:
        """Return rows of the metrics or samples of a trial in the order they were reported."""
        found = self._database.execute(
            f"SELECT metric_group, {step_and_archived}, body, attempt, sequence, reported, rank FROM {table} "
            f"WHERE trial_id = ? {'AND metric_group = ?' if group is not None else ''} {condition}",
            [trial_id] if group is None else [trial_id, text(group)],
        )
        # Sorted here and not by the database: rows come ordered by step, which is nearly the order of the reports, and
        # Python's sort is fast on nearly sorted data, whereas the database would copy and sort every row.
        found.sort(key=_ATTEMPT_SEQUENCE_RANK)
        return columns.metrics(found)


def _optional_text(value: str | None) -> str | None:
    return None if value is None else text(value)


_ATTEMPT_SEQUENCE_RANK = itemgetter(4, 5, 7)  # positions of these columns in `_read_metrics`


def _passed_hparams(start: AttemptStart) -> str | None:
    """Return the hyperparameters that a trial of a search passed to `init()`, as JSON, or None for a standalone run.

    A standalone run is assigned no values: those it passes are the hyperparameters of its trial.
    """
    return None if start.allocation is None else json.dumps(start.run.passed_hparams or {}, default=repr)


def _values(rows: Sequence[Row], kind: type[R], values_of: Callable[[R], Sequence[Any] | None]) -> list[Sequence[Any]]:
    """Return the column values of the rows of one kind, without those for which `values_of` returns None."""
    found = (values_of(row) for row in rows if isinstance(row, kind))
    return [values for values in found if values is not None]


def _sample_values(row: MetricRow) -> Sequence[Any] | None:
    if row.steps_completed is not None:
        return None
    return row.trial_id, row.attempt, row.rank, row.sequence, text(row.group), row.body, row.reported


def _publishing_values(row: PublishingRow) -> Sequence[Any]:
    return row.uuid, row.trial_id, row.attempt, text(row.storage), row.since


def _checkpoint_values(row: CheckpointRow) -> Sequence[Any]:
    return (
        row.uuid,
        row.trial_id,
        row.attempt,
        row.steps_completed,
        json.dumps(row.metadata),
        json.dumps(row.resources),
        text(row.storage),
        "ACTIVE",
        row.reported,
    )


def _log_values(row: LogRow) -> Sequence[Any]:
    return row.trial_id, row.attempt, row.rank, row.sequence, row.stream, text(row.text), row.written, row.level
