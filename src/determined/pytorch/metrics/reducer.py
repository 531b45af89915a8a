"""Reducers: compute one metric from the values of many batches and ranks."""

from __future__ import annotations

import enum
import itertools
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from determined.errors import InvalidExperimentException


class Reducer(enum.Enum):
    """The built-in reductions for validation metrics."""

    AVG = 1
    SUM = 2
    MAX = 3
    MIN = 4


class MetricReducer(metaclass=ABCMeta):
    """Base class for a metric over all values of a window (a training workload or a validation).

    Use it for metrics that are not an average of batches. Pass values to it in any way, for example by a method
    `update` called in `evaluate_batch`, and register it with `context.wrap_reducer`.
    """

    @abstractmethod
    def reset(self) -> None:
        """Start a new window; called before every training workload and every validation."""

    @abstractmethod
    def per_slot_reduce(self) -> Any:
        """Reduce the values of this rank; called on every rank, also if there is only one."""

    @abstractmethod
    def cross_slot_reduce(self, per_slot_metrics: Sequence[Any]) -> Any:
        """Reduce the results of `per_slot_reduce` of all ranks, in rank order.

        Return a value if the reducer was registered with a name, else a dict of metrics by name.
        """


class SimpleReducer(MetricReducer):
    """A function of the values of all ranks, in the order in which a single rank would have seen them."""

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self.function = function
        self.values: list[Any] = []

    def update(self, value: Any) -> None:
        """Add a value."""
        self.values.append(value)

    def reset(self) -> None:
        """Forget the values of the last window."""
        self.values = []

    def state_dict(self) -> dict[str, Any]:
        """Return the values since the last reset, for a checkpoint inside a workload."""
        return {"values": self.values}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the values of an interrupted workload."""
        self.values = list(state_dict["values"])

    def per_slot_reduce(self) -> Any:
        """Return this rank's values: the function needs those of all ranks at once."""
        return self.values

    def cross_slot_reduce(self, per_slot_metrics: Sequence[Any]) -> Any:
        """Call the function with the values of all ranks."""
        # Batches are distributed round-robin over ranks, so interleaving the ranks' values restores their order.
        missing = object()
        rounds = itertools.zip_longest(*per_slot_metrics, fillvalue=missing)
        return self.function([value for one in rounds for value in one if value is not missing])


class _Registered(NamedTuple):
    """A reducer with its name and the reports it takes part in."""

    reducer: MetricReducer
    name: str | None
    for_training: bool
    for_validation: bool

    def attempt(self, phase: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a method of the reducer; an exception becomes a ValueError that names the reducer and the method."""
        try:
            return function(*args)
        except Exception as error:
            named = f" (name={self.name!r})" if self.name is not None else ""
            raise ValueError(
                f"{type(self.reducer).__name__}.{phase}{named} failed: {type(error).__name__}: {error}"
            ) from error


class ReducerContext:
    """The reducers that a trial registered, and the two steps of reducing them."""

    def __init__(self, allgather: Callable[[Any], Sequence[Any]] | None = None) -> None:
        self._allgather = allgather if allgather is not None else lambda value: [value]
        self._registered: list[_Registered] = []

    def wrap_reducer(
        self,
        reducer: Callable[[list[Any]], Any] | MetricReducer,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> MetricReducer:
        """Register a reducer, see `PyTorchTrialContext.wrap_reducer`."""
        if not isinstance(reducer, MetricReducer):
            # An assertion, as in earlier releases; so are those about names below.
            assert callable(reducer), f"wrap_reducer takes a MetricReducer or a function, got {reducer!r}"
            reducer = SimpleReducer(reducer)
        # By identity: the state of one object cannot be reduced twice under two names.
        assert all(known.reducer is not reducer for known in self._registered), (
            f"wrap_reducer got the same {type(reducer).__name__} twice"
        )
        self._registered.append(_Registered(reducer, name, for_training, for_validation))
        return reducer

    def reset_reducers(self) -> None:
        """Reset all reducers; an exception names the reducer."""
        for known in self._registered:
            known.attempt("reset", known.reducer.reset)

    def selected(self, for_training: bool) -> list[_Registered]:
        """Return the reducers that take part in training reports, or in validations."""
        return [known for known in self._registered if (known.for_training if for_training else known.for_validation)]

    def per_slot(self, for_training: bool) -> list[Any]:
        """Return this rank's value of each selected reducer."""
        return [
            known.attempt("per_slot_reduce", known.reducer.per_slot_reduce) for known in self.selected(for_training)
        ]

    def states(self) -> list[dict[str, Any]]:
        """Return the state of each reducer within a window: its `state_dict()` if it has one, else its attributes."""
        return [
            # Reducers of users seldom define state_dict(); their attributes are the values collected so far.
            known.reducer.state_dict() if hasattr(known.reducer, "state_dict") else dict(vars(known.reducer))
            for known in self._registered
        ]

    def load_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Restore the states that `states` returned."""
        # Not strict: a program may have added or removed a reducer since the checkpoint.
        for known, state in zip(self._registered, states, strict=False):
            if hasattr(known.reducer, "load_state_dict"):
                known.reducer.load_state_dict(state)
            else:
                vars(known.reducer).update(state)

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """Return the metrics of the selected reducers, reduced over all ranks in one collective."""
        selected = self.selected(for_training)
        if not selected:
            # The same on every rank, because all ranks register the
            # same reducers: no collective is skipped by one of them.
            return {}
        return self.run_cross_slot_reduction(selected, self._allgather(self.per_slot(for_training)))

    def run_cross_slot_reduction(
        self, reducables: Sequence[_Registered], gathered: Sequence[Sequence[Any]]
    ) -> dict[str, Any]:
        """Return the metrics computed from the values of all ranks, one list per rank."""
        metrics: dict[str, Any] = {}
        for known, parts in zip(reducables, zip(*gathered, strict=True), strict=True):
            value = known.attempt("cross_slot_reduce", known.reducer.cross_slot_reduce, parts)
            kind = type(known.reducer).__name__
            if known.name is None:
                assert isinstance(value, dict), (
                    f"{kind} was wrapped without a name, so cross_slot_reduce returns a dict of names and values, "
                    f"got {type(value).__name__}"
                )
                metrics.update({name: as_numpy(part) for name, part in value.items()})
            else:
                assert not isinstance(value, dict), (
                    f"{kind} was wrapped with the name {known.name!r}, so cross_slot_reduce returns a value, got a dict"
                )
                metrics[known.name] = as_numpy(value)
        return metrics


_FLOATS_OF_NUMPY = (torch.float16, torch.float32, torch.float64)


def as_numpy(value: Any) -> Any:
    """Return a tensor as a numpy array (types that numpy lacks as float32), and anything else unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    # numpy has no sparse arrays.
    if value.layout is not torch.strided:
        value = value.to_dense()
    # bfloat16 and the 8-bit types do not exist in numpy.
    if value.is_floating_point() and value.dtype not in _FLOATS_OF_NUMPY:
        value = value.float()
    return value.cpu().numpy()


def simple_reduce(reducer: Reducer, values: Any, weights: Sequence[float] | None = None) -> Any:
    """Reduce all of `values` to one number; sums use float64, and the result has the dtype of the values."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiubc":
        raise TypeError(f"metrics of type {values.dtype} cannot be reduced by {reducer}: they are not numbers")
    # np.max and np.min raise for no values, and the mean would warn.
    if not values.size and reducer is not Reducer.SUM:
        return np.float64("nan")
    if reducer is Reducer.MAX:
        return np.max(values)
    if reducer is Reducer.MIN:
        return np.min(values)
    # Sums of many float16 or float32 values would lose digits or overflow.
    wide = np.float64 if values.dtype.kind == "f" else None
    if reducer is Reducer.SUM:
        result = np.sum(values, dtype=wide)
    elif reducer is Reducer.AVG:
        if weights is None:
            result = np.mean(values, dtype=wide)
        else:
            if len(weights) != len(values):
                raise RuntimeError(f"{len(values)} values cannot be averaged with {len(weights)} weights")
            result = np.average(values.astype(np.float64), axis=0, weights=weights)
    else:
        raise InvalidExperimentException(f"a reducer is one of determined.pytorch.Reducer, got {reducer!r}")
    return values.dtype.type(result) if values.dtype.kind == "f" and np.ndim(result) == 0 else result


def reducers_by_name(reducer: Reducer | dict[str, Reducer] | Any, names: Sequence[str]) -> dict[str, Reducer]:
    """Return one reducer per metric name from what `evaluation_reducer` returned; raise if the names do not match."""
    if isinstance(reducer, dict):
        missing, extra = sorted(set(names) - set(reducer)), sorted(set(reducer) - set(names))
        if missing or extra:
            raise InvalidExperimentException(
                "evaluation_reducer() returned a dict whose names are not those of the metrics that evaluate_batch() "
                f"returned: missing {missing}, unknown {extra}"
            )
        by_name = dict(reducer)
    else:
        by_name = dict.fromkeys(names, reducer)
    for name, one in by_name.items():
        if not isinstance(one, Reducer):
            raise InvalidExperimentException(
                f"evaluation_reducer() must return a pytorch.Reducer for each metric, got {one!r} for {name!r}"
            )
    if not isinstance(reducer, (dict, Reducer)):
        raise InvalidExperimentException(
            f"evaluation_reducer() must return a determined.pytorch.Reducer or a dict of them, got {reducer!r}"
        )
    return by_name
