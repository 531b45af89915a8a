"""`/api/checkpoints`: the checkpoints of an experiment or a trial, and the verification of one by its hashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from determined.config.metric_values import number as metric_number
from determined.config.secrets.masking import mask_secrets
from determined.errors import CheckpointNotFound, DeterminedError, InvalidCheckpointException
from determined.sentences import counted
from determined.store.ranking import best_checkpoints
from determined.store.records import StoredCheckpoint
from determined.store.store import Store
from determined.web.answers import Route, number, representable
from determined.web.api.shapes import Number, Plain
from determined.web.identifiers import Id
from determined.web.state import MOST_VERIFICATIONS, reading, state_of, version

router = APIRouter(route_class=Route)

# The pattern is for the OpenAPI document only: every id that is not in the store is answered with 404.
CheckpointId = Annotated[str, Path(json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$"})]


class CheckpointFile(TypedDict):
    """A file of a checkpoint."""

    path: str
    bytes: int


class ShownCheckpoint(TypedDict):
    """A checkpoint. `incomplete` names missing parts of its state, `pickled` the pickled ones; `used_by` its users."""

    id: str
    trial: int
    trial_number: int
    experiment: int
    attempt: int
    batches: int
    metric: Number
    state: str
    bytes: int
    created: float
    storage: str
    files: list[CheckpointFile]
    incomplete: list[str]
    pickled: list[str]
    metadata: Plain
    used_by: list[str]
    registered: list[str]
    best: bool


class ShownCheckpoints(TypedDict):
    """Checkpoints, newest first."""

    version: str
    rows: list[ShownCheckpoint]


class Verified(TypedDict):
    """The result of comparing the files of a checkpoint with the hashes that were stored with them.

    Without hashes, as in checkpoints that a program saves with the Core API, only names and sizes are compared. `found`
    is false if nothing could be compared, because the files do not exist on this machine or were deleted.
    """

    ok: bool
    found: bool
    hashed: bool
    problems: list[str]
    files: int
    bytes: int


@router.get("/api/experiments/{experiment_id}/checkpoints")
def of_experiment(request: Request, experiment_id: Id) -> ShownCheckpoints:
    """Return the checkpoints of all trials of an experiment."""
    seen = version(request)
    with reading(request) as store:
        store.experiments.get(experiment_id)
        return {"version": seen, "rows": checkpoint_rows(store, store.experiments.checkpoints(experiment_id))}


@router.get("/api/trials/{trial_id}/checkpoints")
def of_trial(request: Request, trial_id: Id) -> ShownCheckpoints:
    """Return the checkpoints of a trial."""
    seen = version(request)
    with reading(request) as store:
        store.experiments.trial(trial_id)
        return {"version": seen, "rows": checkpoint_rows(store, store.checkpoints(trial_id))}


class VerifyRequest(BaseModel):
    """An empty object: the comparison has no options, but a JSON body is required, which other sites cannot send."""

    model_config = ConfigDict(extra="forbid")


@router.post("/api/checkpoints/{checkpoint_id}/verify")
def verify(request: Request, checkpoint_id: CheckpointId, body: VerifyRequest) -> Verified:
    """Read the files of a checkpoint and compare them with the hashes that were stored with them."""
    from determined.experiment.checkpoints.verification import verify_checkpoint

    with reading(request) as store:
        row = store.upkeep.checkpoint(checkpoint_id)
        experiment = store.experiments.get(store.experiments.trial(row.trial_id).experiment_id)
    hashed = found = True
    verifications = state_of(request).verifications
    if not verifications.acquire(blocking=False):
        raise DeterminedError(
            f"{counted(MOST_VERIFICATIONS, 'checkpoint')} are being verified: verify this one when one of them is done"
        )
    try:
        hashed, problems = verify_checkpoint(experiment, row), []
    except CheckpointNotFound as error:
        found, problems = False, [str(error)]
    except InvalidCheckpointException as error:
        problems = [str(error)]
    except OSError as error:
        problems = [f"checkpoint {row.checkpoint_id} cannot be read: {error.strerror or error}"]
    finally:
        verifications.release()
    files = [size for name, size in row.resources.items() if not name.endswith("/")]
    return {
        "ok": not problems,
        "found": found,
        "hashed": hashed,
        "problems": problems,
        "files": len(files),
        "bytes": sum(files),
    }


def checkpoint_rows(store: Store, checkpoints: Sequence[StoredCheckpoint]) -> list[ShownCheckpoint]:
    """Return checkpoints as rows, with their users; the best checkpoint of each experiment is marked."""
    trial_ids = sorted({row.trial_id for row in checkpoints})
    uses = store.overview.checkpoint_uses(trial_ids)
    trials = {row.id: row for row in store.overview.trials(trial_ids=trial_ids, latest=False)}
    experiments = {number: store.experiments.get(number) for number in {row.experiment_id for row in trials.values()}}
    best: set[str] = set()
    for experiment in experiments.values():
        own = [row for row in checkpoints if trials[row.trial_id].experiment_id == experiment.id]
        ranked = best_checkpoints(own, experiment.metric, experiment.smaller_is_better)
        best.update(found.checkpoint_id for found in ranked[:1])
    rows: list[ShownCheckpoint] = []
    for row in checkpoints:
        trial = trials[row.trial_id]
        experiment = experiments[trial.experiment_id]
        files = [(name, size) for name, size in row.resources.items() if not name.endswith("/")]
        rows.append(
            {
                "id": row.checkpoint_id,
                "trial": row.trial_id,
                "trial_number": trial.number,
                "experiment": trial.experiment_id,
                "attempt": row.attempt,
                "batches": row.steps_completed,
                "metric": number(metric_number(row.validation_metric(experiment.metric))),
                "state": row.shown_state,
                "bytes": sum(size for _, size in files),
                "created": row.reported,
                "storage": str(mask_secrets(row.storage)),
                "files": [{"path": name, "bytes": size} for name, size in sorted(files)],
                "incomplete": _parts(row, "incomplete"),
                "pickled": _parts(row, "pickled_state"),
                "metadata": representable(mask_secrets(row.metadata)),
                "used_by": uses.users.get(row.checkpoint_id, []),
                "registered": uses.registered.get(row.checkpoint_id, []),
                "best": row.checkpoint_id in best,
            }
        )
    return rows


def _parts(row: StoredCheckpoint, key: str) -> list[str]:
    """Return the list that the metadata hold under `key`, as texts; empty if there is none."""
    parts: Any = row.metadata.get(key)
    return [str(part) for part in parts] if isinstance(parts, list) else []
