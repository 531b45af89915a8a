"""Begins the attempts of trials: chooses or creates the trial, records the attempt, archives what it will repeat."""

from __future__ import annotations

import json

from determined.errors import NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.heartbeats import is_active
from determined.store.rows import AttemptStart, BegunAttempt
from determined.store.sql import columns
from determined.store.sql.columns import optional_text, text
from determined.store.sql.ranks import merged_metadata
from determined.store.sql.reports import archive_after
from determined.store.sql.requests import last_request
from determined.store.sql.standalone_runs import add_trial, find_named_trial, newest_saved_step


def begin_attempt(database: Database, start: AttemptStart) -> BegunAttempt:
    """Record the start of an attempt and return its trial, number and metadata; see `Store.begin_attempt`."""
    execute = database.execute
    # Exclusive, otherwise two processes could both find a trial idle and continue it.
    with database.transaction(exclusive=True):
        known = execute("SELECT trial_id, number FROM attempts WHERE key = ?", [start.key])
        if known:  # a retry after the answer to an earlier call was lost
            return _begun(database, *known[0])
        named = find_named_trial(database, start)
        # An allocation is explicit, and comes first; a program inside a search may not choose another trial.
        trial_id = _allocated_trial(database, start) or named or _trial_to_continue(database, start)
        if trial_id is None:
            trial_id = add_trial(database, start, parent=_trial_of_checkpoint(database, start.checkpoint))
        # A named trial resumes from its newest checkpoint, regardless of the step that the program passes.
        start_step = newest_saved_step(database, trial_id) if named else start.steps_completed
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
            "started, identity, command, git_commit, heartbeat) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?)",
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
                optional_text(start.run.identity),
                optional_text(start.run.command),
                optional_text(start.run.git_commit),
                start.started if start.allocation is None else None,
            ],
        )
        archive_after(database, trial_id, start_step)
        return _begun(database, trial_id, number)


def newest_attempt(database: Database, run_key: str) -> tuple[str, BegunAttempt] | None:
    """Return the newest attempt whose key is `<run_key>-<number>`, together with its key, or None."""
    found = database.execute(
        # A run key is a UUID, which contains no character with a meaning in LIKE.
        "SELECT key, trial_id, number FROM attempts WHERE key LIKE ? ORDER BY id DESC LIMIT 1",
        [f"{run_key}-%"],
    )
    return (found[0][0], _begun(database, *found[0][1:])) if found else None


def _begun(database: Database, trial_id: int, number: int) -> BegunAttempt:
    """Return the record of an attempt that was just begun."""
    ((experiment_id, allocation, ignored, own, of_ranks),) = database.execute(
        "SELECT experiment_id, allocation, last_request, metadata, rank_metadata FROM trials WHERE id = ?", [trial_id]
    )
    # A standalone run ignores all earlier requests. A runner may request a stop before the workers that it started
    # get here, so for a trial of a search only requests before the allocation are ignored.
    if not allocation:
        ignored = last_request(database, trial_id)
    return BegunAttempt(experiment_id, trial_id, number, merged_metadata(own, of_ranks), ignored)


def _allocated_trial(database: Database, start: AttemptStart) -> int | None:
    """Return the trial of the start's allocation, or None without one.

    Raise `StoreError` if the runner has started the trial again since, under another allocation.
    """
    if start.allocation is None:
        return None
    trial_id, allocation = start.allocation
    found = database.execute("SELECT allocation FROM trials WHERE id = ?", [trial_id])
    if not found:
        raise NotFoundException.of("trial", trial_id)
    if found[0][0] != allocation:
        raise StoreError(
            f"trial {trial_id} was started again as {found[0][0]!r}, and {allocation!r} may not report any more"
        )
    return trial_id


def _trial_to_continue(database: Database, start: AttemptStart) -> int | None:
    """Return the existing trial that a new attempt continues, or None if it needs a new trial."""
    own = None if start.previous is None else start.previous.trial_id
    trial_id = _trial_of_checkpoint(database, start.checkpoint)
    if trial_id is None:
        return own
    if trial_id != own and (_is_managed(database, trial_id) or _is_running(database, trial_id)):
        return None
    return trial_id


def _trial_of_checkpoint(database: Database, checkpoint_id: str | None) -> int | None:
    """Return the trial that saved a checkpoint, or None if the checkpoint is unknown."""
    # `uuid = NULL` matches no row, so a start without a checkpoint needs no case of its own.
    found = database.execute("SELECT trial_id FROM checkpoints WHERE uuid = ?", [checkpoint_id])
    return found[0][0] if found else None


def _is_managed(database: Database, trial_id: int) -> bool:
    """Return whether a trial belongs to a search, whose runner alone may start it."""
    ((state,),) = database.execute("SELECT state FROM trials WHERE id = ?", [trial_id])
    return state is not None


def _is_running(database: Database, trial_id: int) -> bool:
    """Return whether the newest attempt of a trial is running."""
    found = database.execute(
        f"SELECT {columns.ATTEMPT} FROM attempts a WHERE a.trial_id = ? ORDER BY a.number DESC LIMIT 1", [trial_id]
    )
    return is_active(columns.attempt(found[0]))


def _passed_hparams(start: AttemptStart) -> str | None:
    """Return the hyperparameters that a trial of a search passed to `init()`, as JSON, or None for a standalone run.

    A standalone run is assigned no values: those it passes are the hyperparameters of its trial.
    """
    # `default=repr`: hyperparameters may be any objects, and are stored as text if JSON cannot hold them.
    return None if start.allocation is None else json.dumps(start.run.passed_hparams or {}, default=repr)
