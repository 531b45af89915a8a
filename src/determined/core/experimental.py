"""`context.experimental`: record which checkpoints a run uses."""

from __future__ import annotations

from typing import Any

from determined.core.supervision.supervisor import Supervisor


class ExperimentalContext:
    """Records the checkpoints that a run evaluates or starts from.

    `Checkpoint.get_metrics()` finds its metrics by that.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def report_task_using_checkpoint(self, checkpoint: Any) -> None:
        """Record that this run uses a checkpoint, given as an SDK object or an id. Repeated calls have no effect."""
        # An SDK object or its id: the SDK is not imported here, because it belongs to a package above this one.
        uuid = getattr(checkpoint, "uuid", checkpoint)
        if not isinstance(uuid, str):
            raise TypeError(f"checkpoint must be a Checkpoint or the id of one, got {checkpoint!r}")
        self._supervisor.checkpoints.report_use(uuid)

    def report_task_using_model_version(self, model_version: Any) -> None:
        """Record that this run uses a version of a model, and so its checkpoint."""
        try:
            uuid = model_version.checkpoint.uuid
            version = (model_version.model_id, model_version.model_version)
        except AttributeError:
            raise TypeError(f"model_version must be a ModelVersion, got {model_version!r}") from None
        self._supervisor.checkpoints.report_use(uuid, version)
