"""Tools around training that may still change."""

from __future__ import annotations

from typing import Any

__all__ = ["test_one_batch"]


def test_one_batch(trial_class: type[Any], config: dict[str, Any]) -> None:
    """Train one batch, validate one batch and save a checkpoint, to see whether a trial class works."""
    from determined.pytorch import exec_trial

    exec_trial.test_one_batch(trial_class, config)


# Its name would make pytest collect it wherever it is imported.
test_one_batch.__test__ = False  # type: ignore[attr-defined]
