"""`LoopState`: the counters of the training loop that a checkpoint stores."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class LoopState:
    """The counters that the training loop needs after a restart; the names are those in checkpoint files."""

    trial_id: int = 0
    last_ckpt: int = 0
    step_id: int = 0
    last_val: int = 0
    batches_trained: int = 0
    epochs_trained: int = 0
    best_validation: float | None = None
    data: dict[str, Any] | None = None  # a DataPosition as a dict, as of the last save
    skipped: list[int] = field(default_factory=list)  # batches that rollbacks excluded, in order

    def state_dict(self) -> dict[str, Any]:
        """Return the counters as JSON data for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> LoopState:
        """Return the state stored in a checkpoint; unknown keys are ignored, missing ones keep their defaults."""
        return cls(**{one.name: stored[one.name] for one in fields(cls) if one.name in stored})
