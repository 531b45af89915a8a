"""Which checkpoints are the best ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from determined.cli.plain import validation_metric
from determined.config.measures import finite_number

if TYPE_CHECKING:
    from determined.store.records import Checkpoint


def best_checkpoints(checkpoints: list[Checkpoint], metric: str | None, smaller_is_better: bool) -> list[Checkpoint]:
    """Those that can be loaded and have a number for the metric, the best first."""
    ranked = [
        (value if smaller_is_better else -value, row)
        for row in checkpoints
        if row.state == "ACTIVE" and (value := finite_number(validation_metric(row, metric))) is not None
    ]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]
