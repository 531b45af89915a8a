"""What the loop must remember across a restart."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class TrialState:
    """Everything the loop must remember across a restart, and nothing else."""

    trial_id: int = 0
    last_ckpt: int = 0
    step_id: int = 0
    last_val: int = 0
    batches_trained: int = 0
    epochs_trained: int = 0
    best_validation: float | None = None
    data: dict[str, Any] | None = None  # a DataPosition, when it was saved
    skipped: list[int] = field(default_factory=list)  # batches that a rollback left out, in order

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> TrialState:
        return cls(**{one.name: stored[one.name] for one in fields(cls) if one.name in stored})
