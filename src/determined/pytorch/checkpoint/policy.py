"""`CheckpointPolicy`: decide after which validations a checkpoint is saved."""

from __future__ import annotations

from typing import Any, NamedTuple

from determined.config.metric_values import finite_number
from determined.pytorch.metrics.batch_metrics import Metrics
from determined.pytorch.state import LoopState

_ADDED = ("batches", "epochs")  # metrics that this library adds to every report


class CheckpointPolicy(NamedTuple):
    """When to save after a validation: `all`, `none`, or `best` (the metric is better than all earlier ones)."""

    name: str
    metric: str | None = None
    smaller_is_better: bool = True

    def wants(self, metrics: Metrics, best_of_experiment: float | None, state: LoopState) -> bool:
        """Return whether to save a checkpoint after a validation, and record the best value so far in `state`.

        Only the chief calls it. Raises RuntimeError if the policy is `best` and the metric is missing or not a number.
        """
        value = self._value(metrics) if self.metric is not None else None
        # The experiment's best may be of another trial, or missing in a standalone run; the state survives a restart.
        earlier = [best for best in (best_of_experiment, state.best_validation) if best is not None]
        better = value is not None and all(self._is_better(value, best) for best in earlier)
        # Recorded even if nothing is saved now: later validations must be compared with it.
        if better:
            state.best_validation = value
        if state.batches_trained == 0:
            return False  # nothing has been trained yet
        return self.name == "all" or (self.name == "best" and better)

    def _is_better(self, value: float, best: float) -> bool:
        """Return whether a value is strictly better: an equal one does not replace the best."""
        # NaN never gets here (see `_value`), and would compare as worse in both directions.
        return value < best if self.smaller_is_better else value > best

    def _value(self, metrics: Metrics) -> float | None:
        """Return the metric as a float, or None if it is not finite; raise if `best` needs it and there is none."""
        value: Any = metrics.get(str(self.metric))
        try:
            return finite_number(float(value))
        except OverflowError:  # an integer outside the range of a float is treated like infinity
            return None
        except (TypeError, ValueError):
            if self.name != "best":
                return None
            raise RuntimeError(self._without_value(metrics)) from None

    def _without_value(self, metrics: Metrics) -> str:
        """Return the error message for a validation without a usable metric."""
        if self.metric in metrics:
            problem = f"Searcher metric {self.metric!r} is not a number: {metrics[self.metric]!r}."
        else:
            reported = ", ".join(str(name) for name in metrics if name not in _ADDED) or "none"
            problem = f"Searcher metric {self.metric!r} is not among the validation metrics ({reported})."
        return f"{problem} checkpoint_policy='best' compares checkpoints by it; 'all' and 'none' do not need it."


SAVE_ALL = CheckpointPolicy("all")
