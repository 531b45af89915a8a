"""JSON data of each kind of row, as `--json` prints it. The keys are stable, because scripts rely on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.cli.display.output import iso_time
from determined.config.stored import StoredConfig

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.output_records import Output
    from determined.store.records import Log, Metric, StoredCheckpoint


def experiment_plain(row: Experiment) -> dict[str, Any]:
    """Return an experiment as JSON data."""
    holder = row.holder
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "labels": row.labels,
        "notes": row.notes,
        "owner": row.owner,
        "state": row.state,
        "progress": row.progress,
        "started": iso_time(row.created),
        "ended": iso_time(row.ended),
        "reason": row.reason or None,
        "parent_id": row.parent_id,
        "archived": row.archived,
        "resource_pool": resource_pool(row),
        # The key keeps its first name for the scripts that read it.
        "by_hand": row.is_standalone,
        "trial_count": row.trial_count,
        "seed": row.seed,
        "metric": row.metric,
        "smaller_is_better": row.smaller_is_better,
        "best": row.best,
        "runner": None
        if holder is None
        else {"host": holder.process.host, "pid": holder.process.pid, "since": iso_time(holder.since)},
    }


def trial_plain(row: Trial) -> dict[str, Any]:
    """Return a trial as JSON data."""
    return {
        "id": row.id,
        "experiment_id": row.experiment_id,
        "number": row.number,
        "state": row.state,
        "hparams": row.hparams,
        "effective_hparams": row.effective_hparams,
        "seed": row.seed,
        "started": iso_time(row.started),
        "ended": iso_time(row.ended),
        "batches": row.steps_completed,
        "best": row.best,
        "latest_checkpoint": row.latest_checkpoint,
        "runs": row.runs,
        "restarts": row.restarts,
        "reason": row.reason or None,
        "phase": row.phase,
        "progress": row.progress,
        "bracket": row.bracket,
        "goal": row.goal,
        "rungs": row.rungs,
        "host": row.host,
        "nodes": row.nodes,
        "command": row.command,
        "git_commit": row.git_commit,
        "exit_code": row.exit_code,
    }


def checkpoint_plain(row: StoredCheckpoint, metric: str | None) -> dict[str, Any]:
    """Return a checkpoint as JSON data; `metric` is the searcher metric."""
    return {
        "uuid": row.checkpoint_id,
        "trial_id": row.trial_id,
        "batches": row.steps_completed,
        "state": row.shown_state,
        "reported": iso_time(row.reported),
        "validation_metric": row.validation_metric(metric),
        "validation_metrics": row.validation,
        "storage": row.storage,
        "resources": row.resources,
        "size": sum(row.resources.values()),
        "metadata": row.metadata,
        "type": checkpoint_type(row),
    }


def output_plain(row: Output) -> dict[str, Any]:
    """Return an output of batch inference as JSON data: the keys of a checkpoint, and its uploads."""
    return {
        "uuid": row.uuid,
        "trial_id": row.trial_id,
        "batches": row.batches,
        "state": "COMPLETED",
        "reported": iso_time(row.reported),
        "validation_metric": None,
        "validation_metrics": None,
        "storage": row.storage,
        "resources": row.resources,
        "size": sum(row.resources.values()),
        "metadata": {},
        "type": "output",
        "uploads": [
            {
                "rank": upload.rank,
                "batches": upload.batches,
                "attempt": upload.attempt,
                "files": upload.files,
                "reported": iso_time(upload.reported),
            }
            for upload in row.uploads
        ],
    }


def metric_plain(row: Metric) -> dict[str, Any]:
    """Return a report of metrics as JSON data."""
    return {
        "group": row.group,
        "batches": row.steps_completed,
        "metrics": row.metrics,
        "reported": iso_time(row.reported),
        "rank": row.rank,
    }


def log_plain(row: Log, trial_id: int) -> dict[str, Any]:
    """Return a log line as JSON data."""
    return {
        "id": row.id,
        "trial_id": trial_id,
        "attempt": row.attempt,
        "rank": row.rank,
        "stream": row.stream,
        "level": row.level,
        "time": iso_time(row.written),
        "text": row.text,
    }


def resource_pool(row: Experiment) -> str:
    """Return the resource pool in the configuration of an experiment, or an empty string."""
    return StoredConfig(row.config).resources.resource_pool


def checkpoint_type(row: StoredCheckpoint) -> str:
    """Return what a checkpoint contains: the state of a training, or the progress of batch inference."""
    from determined.store.output_records import PROGRESS_METADATA

    return "progress" if PROGRESS_METADATA in row.metadata else "training"
