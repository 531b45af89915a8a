"""The store's queries, the same for every database."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from determined.errors import StoreError
from determined.store import process
from determined.store.database import Database
from determined.store.migrate import migrate
from determined.store.process import Process
from determined.store.records import (
    Attempt,
    AttemptStart,
    BegunAttempt,
    Checkpoint,
    CheckpointRow,
    EndRow,
    Log,
    LogRow,
    Metric,
    MetricRow,
    Request,
    RequestKind,
    Row,
    Run,
    StatusRow,
)

R = TypeVar("R")

_METRICS = "metrics (trial_id, metric_group, step, attempt, sequence, archived, body, reported)"

# Two JSON objects become one with the entries of both; of a name that is in both, readers take the later value.
_UNITED = """CASE
    WHEN metrics.attempt < excluded.attempt OR metrics.body = '{}' OR metrics.body = excluded.body THEN excluded.body
    WHEN excluded.body = '{}' THEN metrics.body
    ELSE substr(metrics.body, 1, length(metrics.body) - 1) || ', ' || substr(excluded.body, 2)
END"""
_METRICS_CONFLICT = f"""(trial_id, metric_group, step) DO UPDATE SET
    body = {_UNITED},
    attempt = excluded.attempt, sequence = excluded.sequence, archived = excluded.archived,
    reported = excluded.reported
WHERE metrics.attempt <= excluded.attempt"""

_SAMPLES = "samples (trial_id, attempt, sequence, metric_group, body, reported)"
_LOGS = "logs (trial_id, attempt, rank, sequence, stream, body, written)"
_CHECKPOINTS = "checkpoints (uuid, trial_id, attempt, steps_completed, metadata, resources, storage, state, reported)"

_ATTEMPT = """a.trial_id, a.number, a.start_step, a.host, a.pid, a.process_started, a.run_dir, a.state, a.started,
    a.ended, a.seconds"""
_CHECKPOINT = """c.uuid, c.trial_id, c.attempt, c.steps_completed, c.metadata, c.resources, c.storage, c.state,
    c.reported, m.body"""
_VALIDATION = """LEFT JOIN metrics m ON m.trial_id = c.trial_id AND m.metric_group = 'validation'
    AND m.step = c.steps_completed AND m.archived = 0"""


class SqlStore:
    """A store in a database; see `base.py` for what the methods promise."""

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

    def begin_attempt(self, start: AttemptStart) -> BegunAttempt:
        execute = self._database.execute
        with self._database.transaction(exclusive=True):
            known = execute("SELECT trial_id, number FROM attempts WHERE key = ?", [start.key])
            if known:  # the answer to an earlier call was lost on its way
                return self._begun(*known[0])
            trial_id = self._trial_to_continue(start)
            if trial_id is None:
                trial_id = self._new_trial(start)
            execute(
                "UPDATE trials SET attempt = attempt + 1, phase = '', progress = NULL, early_exit = NULL, "
                "stop_acknowledged = 0 WHERE id = ?",
                [trial_id],
            )
            ((number,),) = execute("SELECT attempt FROM trials WHERE id = ?", [trial_id])
            execute(
                "INSERT INTO attempts (key, trial_id, number, start_step, host, pid, process_started, run_dir, state, "
                "started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?)",
                [
                    start.key,
                    trial_id,
                    number,
                    start.steps_completed,
                    _text(start.process.host),
                    start.process.pid,
                    start.process.started,
                    _text(start.run.run_dir),
                    start.started,
                ],
            )
            execute(
                "UPDATE metrics SET archived = 1 WHERE trial_id = ? AND step > ?", [trial_id, start.steps_completed]
            )
            return self._begun(trial_id, number)

    def write(self, rows: Sequence[Row]) -> None:
        insert = self._database.insert
        with self._database.transaction():
            insert(_METRICS, self._metric_values(rows), _METRICS_CONFLICT)
            insert(_SAMPLES, _values(rows, MetricRow, _sample_values), "DO NOTHING")
            insert(_CHECKPOINTS, _values(rows, CheckpointRow, _checkpoint_values), "DO NOTHING")
            insert(_LOGS, _values(rows, LogRow, _log_values), "DO NOTHING")
            for row in rows:
                if isinstance(row, StatusRow):
                    self._write_status(row)
                elif isinstance(row, EndRow):
                    self._write_end(row)

    def runs(self, limit: int = 1000) -> list[Run]:
        found = self._database.execute(
            "SELECT t.experiment_id, t.id, t.parent_id, e.program, t.hparams, t.phase, t.progress, t.metadata, "
            f"t.early_exit, t.stop_acknowledged, t.created, {_ATTEMPT} FROM attempts a "
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
                json.loads(metadata),
                early_exit,
                bool(acknowledged),
                created,
                _attempt(attempt),
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
                early_exit,
                acknowledged,
                created,
                *attempt,
            ) in found
        ]

    def attempts(self, trial_id: int) -> list[Attempt]:
        found = self._database.execute(
            f"SELECT {_ATTEMPT} FROM attempts a WHERE a.trial_id = ? ORDER BY a.number", [trial_id]
        )
        return [_attempt(row) for row in found]

    def metrics(self, trial_id: int, group: str | None = None, *, archived: bool = False) -> list[Metric]:
        return self._read_metrics("metrics", "step, archived", trial_id, group, "" if archived else "AND archived = 0")

    def find_metric(self, trial_id: int, group: str, steps_completed: int) -> Metric | None:
        found = self._database.execute(
            "SELECT metric_group, step, archived, body, attempt, sequence, reported FROM metrics "
            "WHERE trial_id = ? AND metric_group = ? AND step = ?",
            [trial_id, _text(group), steps_completed],
        )
        return _metric(found[0]) if found else None

    def samples(self, trial_id: int, group: str | None = None) -> list[Metric]:
        return self._read_metrics("samples", "NULL, 0", trial_id, group, "")

    def checkpoints(self, trial_id: int) -> list[Checkpoint]:
        found = self._database.execute(
            f"SELECT {_CHECKPOINT} FROM checkpoints c {_VALIDATION} WHERE c.trial_id = ? ORDER BY c.id DESC",
            [trial_id],
        )
        return [_checkpoint(row) for row in found]

    def latest_checkpoints(self, program: str | None = None, limit: int = 100) -> list[Checkpoint]:
        found = self._database.execute(
            f"SELECT {_CHECKPOINT} FROM checkpoints c {_VALIDATION} JOIN trials t ON t.id = c.trial_id "
            "JOIN experiments e ON e.id = t.experiment_id "
            "JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt "
            f"WHERE e.by_hand = 1 AND c.state = 'ACTIVE' {'AND e.program = ?' if program is not None else ''} "
            "ORDER BY a.id DESC, c.id DESC LIMIT ?",
            [limit] if program is None else [_text(program), limit],
        )
        return [_checkpoint(row) for row in found]

    def set_checkpoint_deleted(self, uuid: str) -> None:
        with self._database.transaction():
            self._database.execute("UPDATE checkpoints SET state = 'DELETED' WHERE uuid = ?", [uuid])

    def logs(self, trial_id: int, after: int = 0) -> list[Log]:
        found = self._database.execute(
            "SELECT id, attempt, rank, stream, body, written FROM logs WHERE trial_id = ? AND id > ? ORDER BY id",
            [trial_id, after],
        )
        return [Log(*row) for row in found]

    def add_request(self, trial_id: int, kind: RequestKind) -> int:
        with self._database.transaction(exclusive=True):
            if not self._database.execute("SELECT 1 FROM trials WHERE id = ?", [trial_id]):
                raise StoreError(f"the store {self.place} has no trial {trial_id}")
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

    def _trial_to_continue(self, start: AttemptStart) -> int | None:
        own = None if start.previous is None else start.previous.trial_id
        trial_id = self._trial_of_checkpoint(start.checkpoint)
        if trial_id is None:
            return own
        return None if trial_id != own and self._lives(trial_id) else trial_id

    def _trial_of_checkpoint(self, uuid: str | None) -> int | None:
        found = self._database.execute("SELECT trial_id FROM checkpoints WHERE uuid = ?", [uuid])
        return found[0][0] if found else None

    def _lives(self, trial_id: int) -> bool:
        found = self._database.execute(
            f"SELECT {_ATTEMPT} FROM attempts a WHERE a.trial_id = ? ORDER BY a.number DESC LIMIT 1", [trial_id]
        )
        newest = _attempt(found[0])
        return newest.ended is None and process.is_running(newest.process)

    def _new_trial(self, start: AttemptStart) -> int:
        execute, run = self._database.execute, start.run
        execute(
            "INSERT INTO experiments (key, by_hand, program, config, created) VALUES (?, 1, ?, ?, ?)",
            [start.key, _text(run.program), json.dumps(run.config, default=repr), run.created],
        )
        ((experiment_id,),) = execute("SELECT id FROM experiments WHERE key = ?", [start.key])
        execute(
            "INSERT INTO trials (experiment_id, parent_id, hparams, created) VALUES (?, ?, ?, ?)",
            [
                experiment_id,
                self._trial_of_checkpoint(start.checkpoint),
                json.dumps(run.hparams, default=repr),
                run.created,
            ],
        )
        ((trial_id,),) = execute("SELECT id FROM trials WHERE experiment_id = ?", [experiment_id])
        return int(trial_id)

    def _begun(self, trial_id: int, number: int) -> BegunAttempt:
        ((experiment_id, metadata),) = self._database.execute(
            "SELECT experiment_id, metadata FROM trials WHERE id = ?", [trial_id]
        )
        return BegunAttempt(experiment_id, trial_id, number, json.loads(metadata), self._last_request(trial_id))

    def _last_request(self, trial_id: int) -> int:
        ((last,),) = self._database.execute("SELECT max(id) FROM requests WHERE trial_id = ?", [trial_id])
        return last or 0

    def _write_status(self, row: StatusRow) -> None:
        """An attempt that was overtaken by a newer one has no say any more."""
        self._database.execute(
            "UPDATE trials SET phase = ?, progress = ?, metadata = ?, early_exit = ?, stop_acknowledged = ? "
            "WHERE id = ? AND attempt = ?",
            [
                _text(row.phase),
                row.progress,
                json.dumps(row.metadata),
                row.early_exit,
                int(row.stop_acknowledged),
                row.trial_id,
                row.attempt,
            ],
        )

    def _write_end(self, row: EndRow) -> None:
        self._database.execute(
            "UPDATE attempts SET state = ?, ended = ?, seconds = ? WHERE trial_id = ? AND number = ?",
            [row.state, row.ended, row.seconds, row.trial_id, row.attempt],
        )

    def _metric_values(self, rows: Sequence[Row]) -> list[Sequence[Any]]:
        """What an attempt reports after a newer one went back behind it is archived like what it reported before."""
        values: list[Sequence[Any]] = []
        behind: dict[tuple[int, int], float] = {}
        for row in rows:
            if not isinstance(row, MetricRow) or row.steps_completed is None:
                continue
            attempt = (row.trial_id, row.attempt)
            if attempt not in behind:
                ((step,),) = self._database.execute(
                    "SELECT min(start_step) FROM attempts WHERE trial_id = ? AND number > ?", attempt
                )
                behind[attempt] = math.inf if step is None else step
            values.append(
                (
                    row.trial_id,
                    _text(row.group),
                    row.steps_completed,
                    row.attempt,
                    row.sequence,
                    int(row.steps_completed > behind[attempt]),
                    row.body,
                    row.reported,
                )
            )
        return values

    def _read_metrics(self, table: str, columns: str, trial_id: int, group: str | None, condition: str) -> list[Metric]:
        found = self._database.execute(
            f"SELECT metric_group, {columns}, body, attempt, sequence, reported FROM {table} WHERE trial_id = ? "
            f"{'AND metric_group = ?' if group is not None else ''} {condition} ORDER BY attempt, sequence",
            [trial_id] if group is None else [trial_id, _text(group)],
        )
        return [_metric(row) for row in found]


def _metric(row: Sequence[Any]) -> Metric:
    group, step, archived, body, attempt, sequence, reported = row
    return Metric(group, step, json.loads(body), attempt, sequence, bool(archived), reported)


def _attempt(row: Sequence[Any]) -> Attempt:
    trial_id, number, start_step, host, pid, process_started, run_dir, state, started, ended, seconds = row
    return Attempt(
        trial_id, number, start_step, Process(host, pid, process_started), run_dir, state, started, ended, seconds
    )


def _checkpoint(row: Sequence[Any]) -> Checkpoint:
    uuid, trial_id, attempt, steps, metadata, resources, storage, state, reported, validation = row
    return Checkpoint(
        uuid,
        trial_id,
        attempt,
        steps,
        json.loads(metadata),
        json.loads(resources),
        storage,
        state,
        reported,
        None if validation is None else json.loads(validation),
    )


def _values(rows: Sequence[Row], kind: type[R], values_of: Callable[[R], Sequence[Any] | None]) -> list[Sequence[Any]]:
    found = (values_of(row) for row in rows if isinstance(row, kind))
    return [values for values in found if values is not None]


def _sample_values(row: MetricRow) -> Sequence[Any] | None:
    if row.steps_completed is not None:
        return None
    return row.trial_id, row.attempt, row.sequence, _text(row.group), row.body, row.reported


def _checkpoint_values(row: CheckpointRow) -> Sequence[Any]:
    return (
        row.uuid,
        row.trial_id,
        row.attempt,
        row.steps_completed,
        json.dumps(row.metadata),
        json.dumps(row.resources),
        _text(row.storage),
        "ACTIVE",
        row.reported,
    )


def _log_values(row: LogRow) -> Sequence[Any]:
    return row.trial_id, row.attempt, row.rank, row.sequence, row.stream, _text(row.text), row.written


def _text(text: str) -> str:
    """Text that every database takes: the few characters that some refuse are written as escapes."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")
