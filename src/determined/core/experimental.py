"""`context.experimental`: which checkpoints this run makes use of."""

from __future__ import annotations

from typing import Any

from determined.core.supervisor import Supervisor


class ExperimentalContext:
    """What a run evaluates or begins with: its metrics are found from there, by `Checkpoint.get_metrics()`."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def report_task_using_checkpoint(self, checkpoint: Any) -> None:
        """This run makes use of a checkpoint: one of the SDK, or its id. Once more changes nothing."""
        uuid = getattr(checkpoint, "uuid", checkpoint)
        if not isinstance(uuid, str):
            raise TypeError(f"checkpoint must be a Checkpoint or the id of one, got {checkpoint!r}")
        self._supervisor.report_use(uuid)

    def report_task_using_model_version(self, model_version: Any) -> None:
        """This run makes use of a version of a model, and so of its checkpoint."""
        try:
            uuid = model_version.checkpoint.uuid
            version = (model_version.model_id, model_version.model_version)
        except AttributeError:
            raise TypeError(f"model_version must be a ModelVersion, got {model_version!r}") from None
        self._supervisor.report_use(uuid, version)
