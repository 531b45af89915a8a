"""Which validations deserve a checkpoint."""

from __future__ import annotations

from typing import Any, NamedTuple

from determined.config.measures import finite_number
from determined.pytorch.metrics import Metrics
from determined.pytorch.state import TrialState

_ADDED = ("batches", "epochs")  # to every report, by this library


class CheckpointPolicy(NamedTuple):
    """`all`, `none`, or `best`: those whose metric is strictly better than every one before."""

    name: str
    metric: str | None = None
    smaller_is_better: bool = True

    def wants(self, metrics: Metrics, best_of_experiment: float | None, state: TrialState) -> bool:
        """Decide on the chief, after a validation; the best value so far is remembered in the trial's state."""
        value = self._value(metrics) if self.metric is not None else None
        earlier = [best for best in (best_of_experiment, state.best_validation) if best is not None]
        better = value is not None and all(self._is_better(value, best) for best in earlier)
        if better:
            state.best_validation = value
        if state.batches_trained == 0:
            return False  # nothing was trained yet that could be lost
        return self.name == "all" or (self.name == "best" and better)

    def _is_better(self, value: float, best: float) -> bool:
        return value < best if self.smaller_is_better else value > best

    def _value(self, metrics: Metrics) -> float | None:
        value: Any = metrics.get(str(self.metric))
        try:
            return finite_number(float(value))
        except OverflowError:  # an integer beyond the range of a float counts as an infinity
            return None
        except (TypeError, ValueError):
            if self.name != "best":
                return None
            raise RuntimeError(self._without_value(metrics)) from None

    def _without_value(self, metrics: Metrics) -> str:
        """Return the message for a validation by which checkpoints cannot be compared."""
        if self.metric in metrics:
            problem = f"Searcher metric {self.metric!r} is not a number: {metrics[self.metric]!r}."
        else:
            reported = ", ".join(str(name) for name in metrics if name not in _ADDED) or "none"
            problem = f"Searcher metric {self.metric!r} is not among the validation metrics ({reported})."
        return f"{problem} checkpoint_policy='best' compares checkpoints by it; 'all' and 'none' do not need it."


SAVE_ALL = CheckpointPolicy("all")
