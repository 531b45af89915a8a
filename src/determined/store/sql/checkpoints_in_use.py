"""Determines which checkpoints must not be deleted.

These are registered and imported checkpoints, and those that a trial starts or would resume from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from determined.config.stored import StoredConfig
from determined.errors import CheckpointInUse
from determined.store.databases.base import Database
from determined.store.heartbeats import is_alive
from determined.store.process import Process
from determined.store.records import StoredCheckpoint
from determined.store.sql.columns import sql_list
from determined.store.states import EXPERIMENT_ENDED, UNSUCCESSFUL

_ENDED = sql_list(EXPERIMENT_ENDED)
_FAILED = sql_list(UNSUCCESSFUL)  # can be continued: from its own newest checkpoint, or else from its source


def refuse_in_use(database: Database, checkpoints: Sequence[StoredCheckpoint], *, by_others_than: int = 0) -> None:
    """Raise `CheckpointInUse` if one of the checkpoints must not be deleted.

    The caller holds an exclusive transaction, so that no checkpoint can be registered between this check and the
    deletion. Uses by the experiment `by_others_than`, which has ended and is being deleted, do not count.
    """
    for reason in needed(database, checkpoints, by_others_than=by_others_than).values():
        raise CheckpointInUse(reason)


def needed(
    database: Database, checkpoints: Sequence[StoredCheckpoint], *, by_others_than: int = 0, by_itself: bool = True
) -> dict[str, str]:
    """Return the checkpoints that must not be deleted, by id, each with the reason.

    With `by_itself`, the newest checkpoint of a trial that has not ended counts as needed: the trial would resume from
    it. Uses by the experiment `by_others_than` do not count.
    """
    # Reads the configurations of all searches that can continue, so it is done once for all checkpoints.
    sources = _sources_of_searches(database, by_others_than) if checkpoints else {}
    reasons: dict[str, str] = {}
    for checkpoint in checkpoints:
        reason = _why_needed(database, checkpoint.checkpoint_id, sources, by_others_than)
        # Deleting an experiment removes its imported records too, without their files.
        if reason is None and checkpoint.borrowed and not by_others_than:
            reason = _belongs_elsewhere(database, checkpoint)
        if reason is not None:
            reasons[checkpoint.checkpoint_id] = reason
    # Each trial once, although it may have many of the checkpoints.
    for trial_id in dict.fromkeys(row.trial_id for row in checkpoints if by_itself and not by_others_than):
        newest = _checkpoint_to_resume(database, trial_id)
        if newest is not None and any(checkpoint.checkpoint_id == newest for checkpoint in checkpoints):
            reasons.setdefault(
                newest,
                f"checkpoint {newest} is the newest of trial {trial_id}, which has not ended and would resume from "
                "it. To delete it, cancel the experiment first",
            )
    return reasons


def _why_needed(database: Database, checkpoint_id: str, sources: dict[str, str], by_others_than: int) -> str | None:
    """Return why a checkpoint is needed by a model, a search or a trial that starts from it, or None."""
    found = database.execute(
        "SELECT m.name, v.number FROM model_versions v JOIN models m ON m.id = v.model_id WHERE v.checkpoint = ? "
        "ORDER BY v.id",
        [checkpoint_id],
    )
    if found:
        name, number = found[0]
        return (
            f"checkpoint {checkpoint_id} is registered as version {number} of model {name!r}. Delete that version "
            f"first: det model delete-version {name!r} {number}"
        )
    if checkpoint_id in sources:
        return sources[checkpoint_id]
    found = database.execute(
        "SELECT t.id, t.experiment_id, t.state, t.ended FROM trials t "
        "WHERE t.source = ? AND t.state IS NOT NULL AND t.experiment_id <> ? AND (t.ended IS NULL OR "
        # A failed trial with a checkpoint of its own resumes from that one, and no longer needs its source.
        f"(t.state IN {_FAILED} AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.trial_id = t.id "
        "AND c.state = 'ACTIVE'))) ORDER BY t.id",
        [checkpoint_id, by_others_than],
    )
    if not found:
        return None
    trial, experiment, state, ended = found[0]
    begins = f"checkpoint {checkpoint_id} is what trial {trial} begins with"
    return f"{begins}, which has not ended" if ended is None else f"{begins}: {_continuable_text(state, experiment)}"


def _belongs_elsewhere(database: Database, checkpoint: StoredCheckpoint) -> str:
    """Return the reason why an imported checkpoint cannot be deleted here."""
    ((experiment,),) = database.execute("SELECT experiment_id FROM trials WHERE id = ?", [checkpoint.trial_id])
    return (
        f"checkpoint {checkpoint.checkpoint_id} was imported, and its files belong to the store that it comes from: "
        f"delete it there; deleting experiment {experiment} removes the records here, and leaves the files"
    )


def _sources_of_searches(database: Database, by_others_than: int) -> dict[str, str]:
    """Return the source checkpoints named by configurations of searches that run or can be continued, with the reasons.

    They are needed even before the search has created a trial.
    """
    found = database.execute(
        f"SELECT e.id, e.state, e.state IN {_FAILED}, e.config FROM experiments e WHERE e.by_hand = 0 AND e.id <> ? "
        f"AND (e.state NOT IN {_ENDED} OR (e.state IN {_FAILED} AND NOT EXISTS (SELECT 1 FROM checkpoints c "
        "JOIN trials t ON t.id = c.trial_id WHERE t.experiment_id = e.id AND c.state = 'ACTIVE'))) ORDER BY e.id",
        [by_others_than],
    )
    reasons: dict[str, str] = {}
    for id_, state, failed, config in found:
        checkpoint_id = StoredConfig(json.loads(config)).searcher.source_checkpoint_uuid
        if checkpoint_id is not None and checkpoint_id not in reasons:
            begin = f"checkpoint {checkpoint_id} is what the trials of experiment {id_} begin with"
            reasons[checkpoint_id] = f"{begin}: {_continuable_text(state, id_)}" if failed else begin
    return reasons


def _continuable_text(state: str, experiment_id: int) -> str:
    """Return the part of a reason which says that an experiment can still be continued."""
    return (
        f"it ended as {state} without a checkpoint of its own, and can be continued; delete experiment {experiment_id} "
        "first if it will not be continued"
    )


def _checkpoint_to_resume(database: Database, trial_id: int) -> str | None:
    """Return the newest complete checkpoint of a trial that has not ended, or None."""
    ((state, ended, attempt_state, host, pid, process_started, heartbeat, newest),) = database.execute(
        "SELECT t.state, t.ended, a.state, a.host, a.pid, a.process_started, a.heartbeat, "
        "(SELECT c.uuid FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'ACTIVE' ORDER BY c.id DESC LIMIT 1) "
        "FROM trials t LEFT JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt WHERE t.id = ?",
        [trial_id],
    )
    if state is None:  # a standalone run
        # A run that was interrupted is resumed by starting its program again. One that was killed counts as failed.
        alive = attempt_state == "stopped" or (
            attempt_state == "running" and is_alive(Process(host, pid, process_started), heartbeat)
        )
    else:
        alive = ended is None
    return newest if alive else None
