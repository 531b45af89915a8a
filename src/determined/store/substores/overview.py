"""All trials and experiments of a store in few queries, for tables with thousands of rows.

Rows are tuples with JSON columns as text: building full records of 10,000 trials would take ten times as long as
reading them, and callers may have a faster JSON parser.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from determined.store.databases.base import Database, few_enough
from determined.store.process import Process
from determined.store.records import Log, LogFilter
from determined.store.sql.logs import LogRange, first_line_at, read_log_page
from determined.store.standalone_runs import RunOfTrial
from determined.store.states import TRIAL_FAILED

# The newest validation is found by the primary key of `metrics`, without reading others.
_LATEST = """(SELECT m.body FROM metrics m WHERE m.trial_id = t.id AND m.metric_group = 'validation' AND m.archived = 0
    AND m.rank = 0 ORDER BY m.step DESC LIMIT 1)"""
_TRIALS = """SELECT t.id, t.experiment_id, t.number, t.state, t.hparams, t.passed_hparams, t.steps_completed,
    t.progress, t.created, coalesce(f.started, t.started), t.ended, t.restarts, t.attempt, t.reason, t.best_metric,
    CASE WHEN e.metric IS NULL THEN NULL ELSE {latest} END,
    a.id, a.state, a.started, a.ended, a.host, a.pid, a.process_started, t.nodes
FROM trials t
JOIN experiments e ON e.id = t.experiment_id
LEFT JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt
LEFT JOIN attempts f ON f.trial_id = t.id AND f.number = 1"""
_EXPERIMENTS = """SELECT e.id, e.key, e.by_hand, e.program, e.name, e.description, e.labels, e.state, e.progress,
    e.config, e.owner, e.archived, e.parent_id, e.created, e.ended, e.reason, e.metric, e.smaller_is_better,
    e.last_request, e.notes <> '', e.borrowed, q.id IS NOT NULL, l.host, l.pid, l.process_started, l.since
FROM experiments e
LEFT JOIN leases l ON l.experiment_id = e.id
LEFT JOIN queue q ON q.experiment_id = e.id"""
# The requests that users make; "reconfigure" is a notice of a command to the runner.
_REQUESTS = "('pause', 'activate', 'cancel', 'kill')"


class StoredTrial(NamedTuple):
    """A trial. `state` is None for a standalone run, whose state follows from its attempt."""

    id: int
    experiment_id: int
    number: int
    state: str | None
    hparams: str
    passed_hparams: str | None
    steps_completed: int
    progress: float | None
    created: float
    started: float | None
    ended: float | None
    restarts: int
    attempts: int
    reason: str | None
    best: float | None
    latest_validation: str | None
    attempt_id: Any
    attempt_state: Any
    attempt_started: float | None
    attempt_ended: float | None
    host: str | None
    pid: int | None
    process_started: str | None
    nodes: str | None  # of each rank, as a JSON list, if it ran on a cluster

    @property
    def standalone_run(self) -> RunOfTrial:
        """The values from which the status of a trial of a standalone experiment follows."""
        process = Process(self.host or "", self.pid or 0, self.process_started or "")
        return RunOfTrial(self.progress, self.reason, self.attempt_id, self.attempt_state, self.attempt_ended, process)


class StoredExperiment(NamedTuple):
    """An experiment. `state` is None for a standalone run, whose state follows from its trials."""

    id: int
    key: str
    is_standalone: int  # the column is `by_hand`
    program: str
    name: str
    description: str
    labels: str
    state: str | None
    progress: float | None
    config: str
    owner: str
    archived: int
    parent_id: int | None
    created: float
    ended: float | None
    reason: str | None
    metric: str | None
    smaller_is_better: int
    last_request: int
    has_notes: int
    borrowed: int
    queued: int
    host: str | None
    pid: int | None
    process_started: str | None
    held_since: float | None

    @property
    def runner(self) -> Process | None:
        """The process that holds the lease of the experiment; it may have exited."""
        return None if self.host is None else Process(self.host, self.pid or 0, self.process_started or "")


class RequestRow(NamedTuple):
    """The newest request to an experiment, or to one of its trials."""

    id: int
    experiment_id: int
    trial_id: int | None
    kind: str
    created: float


class EndedTrial(NamedTuple):
    """What a trial that has ended, or whose state follows from its attempt, tells about its failure or success."""

    id: int
    experiment_id: int
    hparams: str
    passed_hparams: str | None
    runs: int
    ended: float | None
    reason: str | None
    state: str | None
    last_line: int | None  # the id of the newest line in the log of a failed trial
    attempt: int | None
    attempt_state: Any
    attempt_ended: float | None
    exit_code: int | None
    host: str | None
    pid: int | None
    process_started: str | None

    @property
    def process(self) -> Process:
        """The process of the newest attempt, if there is one."""
        return Process(self.host or "", self.pid or 0, self.process_started or "")


class JournalRow(NamedTuple):
    """An entry of the journal of a search."""

    sequence: int
    event: str
    actions: str


class CheckpointUses(NamedTuple):
    """The users of checkpoints by id: trials that started from them or read them, and versions of models."""

    users: dict[str, list[str]]
    registered: dict[str, list[str]]


class Overview:
    """Queries that read many rows at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def trials(
        self,
        *,
        experiment_id: int | None = None,
        trial_ids: Sequence[int] | None = None,
        archived: bool = False,
        latest: bool = True,
    ) -> list[StoredTrial]:
        """Return trials, newest first: all, those of an experiment, or given ones. `archived` adds archived ones.

        Without `latest` their newest validations, which are most of the work, are not read.
        """
        select = _TRIALS.format(latest=_LATEST if latest else "NULL")
        return [StoredTrial(*row) for row in self._select(select, "t.", experiment_id, trial_ids, archived)]

    def experiments(self, *, experiment_id: int | None = None, archived: bool = False) -> list[StoredExperiment]:
        """Return experiments, newest first: all, or one. `archived` adds archived ones."""
        return [StoredExperiment(*row) for row in self._select(_EXPERIMENTS, "e.", experiment_id, None, archived)]

    def checkpoints(self, experiment_id: int | None = None) -> list[tuple[int, str]]:
        """Return the trial and the files, as JSON text, of every checkpoint that is not deleted."""
        statement = "SELECT c.trial_id, c.resources FROM checkpoints c"
        if experiment_id is None:
            found = self._database.execute(f"{statement} WHERE c.state <> 'DELETED'")
        else:
            found = self._database.execute(
                f"{statement} JOIN trials t ON t.id = c.trial_id WHERE c.state <> 'DELETED' AND t.experiment_id = ?",
                [experiment_id],
            )
        return [(trial_id, resources) for trial_id, resources in found]

    def requests(self, experiment_id: int | None = None) -> list[RequestRow]:
        """Return the newest request to every experiment that has not ended, and to its trials."""
        condition, values = ("", []) if experiment_id is None else ("AND e.id = ?", [experiment_id])
        found = self._database.execute(
            "SELECT r.id, r.experiment_id, r.trial_id, r.kind, r.created FROM experiment_requests r WHERE r.id IN "
            "(SELECT max(n.id) FROM experiment_requests n JOIN experiments e ON e.id = n.experiment_id "
            f"WHERE e.ended IS NULL AND n.kind IN {_REQUESTS} {condition} GROUP BY n.experiment_id, n.trial_id)",
            values,
        )
        return [RequestRow(*row) for row in found]

    def requests_to_runs(self) -> list[RequestRow]:
        """Return the newest request to every trial of a standalone run that is running."""
        found = self._database.execute(
            "SELECT r.id, t.experiment_id, r.trial_id, r.kind, r.created FROM requests r "
            "JOIN trials t ON t.id = r.trial_id JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt "
            # A request that was made before the attempt began concerns an earlier one.
            "WHERE t.state IS NULL AND a.state = 'running' AND r.created >= a.started AND r.id IN "
            "(SELECT max(n.id) FROM requests n GROUP BY n.trial_id)"
        )
        return [RequestRow(*row) for row in found]

    def checkpoint_uses(self, trial_ids: Collection[int]) -> CheckpointUses:
        """Return the uses of checkpoints of these trials, by checkpoint id.

        A use is a trial that uses the checkpoint, or a model version that names it.
        """
        users: dict[str, list[str]] = {}
        registered: dict[str, list[str]] = {}
        for trial_id in sorted(trial_ids):
            own = "SELECT uuid FROM checkpoints WHERE trial_id = ?"
            for statement in (
                f"SELECT source, id FROM trials WHERE source IN ({own}) ORDER BY id",
                f"SELECT checkpoint, trial_id FROM checkpoint_uses WHERE checkpoint IN ({own}) ORDER BY trial_id",
            ):
                for checkpoint_id, user in self._database.execute(statement, [trial_id]):
                    names = users.setdefault(checkpoint_id, [])
                    names += [f"trial {user}"] if f"trial {user}" not in names else []
            for checkpoint_id, name, number in self._database.execute(
                "SELECT v.checkpoint, m.name, v.number FROM model_versions v JOIN models m ON m.id = v.model_id "
                f"WHERE v.checkpoint IN ({own}) ORDER BY v.id",
                [trial_id],
            ):
                registered.setdefault(checkpoint_id, []).append(f"{name} {number}")
        return CheckpointUses(users, registered)

    def experiments_with_failures(self, most: int) -> list[int]:
        """Return the newest experiments with a trial that has failed, or with a run that reported no end."""
        found = self._database.execute(
            "SELECT DISTINCT t.experiment_id FROM trials t LEFT JOIN attempts a ON a.trial_id = t.id "
            "AND a.number = t.attempt JOIN experiments e ON e.id = t.experiment_id WHERE e.archived = 0 AND "
            f"(t.state IN ({', '.join('?' * len(TRIAL_FAILED))}) "
            "OR (t.state IS NULL AND a.state IN ('failed', 'running'))) "
            "ORDER BY t.experiment_id DESC LIMIT ?",
            [*TRIAL_FAILED, most],
        )
        return [number for (number,) in found]

    def ended_trials(self, experiment_ids: Sequence[int]) -> list[EndedTrial]:
        """Return the trials of experiments that have ended, and those of standalone runs."""
        failed = f"t.state IN ({', '.join('?' * len(TRIAL_FAILED))})"
        select = (
            "SELECT t.id, t.experiment_id, t.hparams, t.passed_hparams, t.runs, t.ended, t.reason, t.state, "
            f"CASE WHEN t.state IS NULL OR {failed} THEN (SELECT max(l.id) FROM logs l WHERE l.trial_id = t.id) END, "
            "a.id, a.state, a.ended, a.exit_code, a.host, a.pid, a.process_started FROM trials t "
            "LEFT JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt "
            f"WHERE (t.ended IS NOT NULL OR t.state IS NULL OR {failed}) AND t.experiment_id IN "
        )
        return [
            EndedTrial(*row)
            for chunk in few_enough(experiment_ids)
            for row in self._database.execute(
                f"{select} ({', '.join('?' * len(chunk))}) ORDER BY t.id", [*TRIAL_FAILED, *TRIAL_FAILED, *chunk]
            )
        ]

    def configs(self, experiment_ids: Sequence[int]) -> list[tuple[int, str]]:
        """Return the configurations of experiments, as JSON text."""
        return [
            (number, config)
            for chunk in few_enough(experiment_ids)
            for number, config in self._database.execute(
                f"SELECT id, config FROM experiments WHERE id IN ({', '.join('?' * len(chunk))}) ORDER BY id", chunk
            )
        ]

    def journal(self, experiment_id: int) -> list[JournalRow]:
        """Return the journal of a search, in order."""
        found = self._database.execute(
            "SELECT sequence, event, actions FROM journal WHERE experiment_id = ? ORDER BY sequence", [experiment_id]
        )
        return [JournalRow(*row) for row in found]

    def ids_by_number(self, experiment_id: int) -> dict[int, int]:
        """Return the ids of the trials of an experiment by their numbers."""
        found = self._database.execute("SELECT number, id FROM trials WHERE experiment_id = ?", [experiment_id])
        return dict(found)

    def trial_ids(self) -> list[int]:
        """Return the ids of all trials, newest first."""
        return [number for (number,) in self._database.execute("SELECT id FROM trials ORDER BY id DESC")]

    def last_steps(self, trial_id: int) -> dict[int, int]:
        """Return the largest step that each attempt of a trial has reported, overwritten steps included."""
        found = self._database.execute(
            "SELECT attempt, max(step) FROM (SELECT attempt, step FROM metrics WHERE trial_id = ? "
            "UNION ALL SELECT attempt, step FROM overwritten_metrics WHERE trial_id = ?) AS reports GROUP BY attempt",
            [trial_id, trial_id],
        )
        return dict(found)

    def example_reports(self, trial_id: int) -> list[tuple[str, str]]:
        """Return group and body of the first and the newest report of each group of a trial.

        They show which metrics there are: by the primary key, without reading the reports between them.
        """
        found: list[tuple[str, str]] = []
        group = ""
        while True:
            ((group,),) = self._database.execute(
                # One step in the index for each group, where DISTINCT would read all reports.
                "SELECT min(metric_group) FROM metrics WHERE trial_id = ? AND metric_group > ?",
                [trial_id, group],
            )
            if group is None:
                return found
            for order in ("ASC", "DESC"):
                bodies = self._database.execute(
                    "SELECT body FROM metrics WHERE trial_id = ? AND metric_group = ? "
                    f"ORDER BY step {order}, rank LIMIT 1",
                    [trial_id, group],
                )
                found += [(group, body) for (body,) in bodies]

    def example_samples(self, trial_id: int, most: int = 200) -> list[tuple[str, str]]:
        """Return group and body of the newest samples of a trial."""
        found = self._database.execute(
            "SELECT metric_group, body FROM samples WHERE trial_id = ? ORDER BY attempt DESC, rank, sequence DESC "
            "LIMIT ?",
            [trial_id, most],
        )
        return [(group, body) for group, body in found]

    def log_page(self, which: LogRange, only: LogFilter, limit: int) -> list[tuple[int, Log]]:
        """Return at most `limit` log lines in order, each with its trial."""
        return read_log_page(self._database, which, only, limit)

    def first_line_at(self, which: LogRange, moment: float) -> int | None:
        """Return the id of the first log line that was written at this time or later, or None."""
        return first_line_at(self._database, which, moment)

    def _select(
        self,
        select: str,
        prefix: str,
        experiment_id: int | None,
        trial_ids: Sequence[int] | None,
        archived: bool,
    ) -> list[tuple[Any, ...]]:
        """Run one of the selections above for all rows, those of an experiment, or given trials."""
        conditions: list[str] = (
            [] if archived or experiment_id is not None or trial_ids is not None else ["e.archived = 0"]
        )
        values: list[int] = []
        if experiment_id is not None:
            conditions.append("e.id = ?")
            values.append(experiment_id)
        if trial_ids is not None:
            # `IN ()` is not valid SQL.
            conditions.append(f"t.id IN ({', '.join('?' * len(trial_ids))})" if trial_ids else "1 = 0")
            values += trial_ids
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._database.execute(f"{select} {where} ORDER BY {prefix}id DESC", values)
