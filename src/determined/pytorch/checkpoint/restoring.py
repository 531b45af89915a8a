"""`Restore`: put the state of a checkpoint back into a trial."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from determined.core.supervision.run_identity import NAME_VARIABLE
from determined.errors import InvalidCheckpointException
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint import legacy, random_generators, unwrapped_parameters
from determined.pytorch.checkpoint.optimizer_state import load_optimizer_state
from determined.pytorch.checkpoint.trial_states import TrialStates
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.trial_loaders import TrainingData
from determined.pytorch.metrics.report_window import ReportWindow
from determined.pytorch.optimization.steps import clear_gradients
from determined.pytorch.ranks.data_parallel import bare
from determined.pytorch.state import LoopState

logger = logging.getLogger("determined.pytorch")


class Restore(NamedTuple):
    """Restores one checkpoint into a trial, on every rank; `name` is the checkpoint's name in messages."""

    name: str
    context: PyTorchTrialContext
    callbacks: Callbacks
    states: TrialStates
    data: TrainingData

    def load(self, directory: Path, state: LoopState, window: ReportWindow) -> None:
        """Restore weights, optimizers, schedulers, callbacks and random generators from an opened checkpoint.

        `state` holds the counters already restored; with 0 batches trained this is a warm start from another trial,
        which takes neither gradients, metrics nor the position in the data.
        """
        context, name = self.context, self.name
        checkpoint = self.states.decode(checkpoint_format.read(directory, name), directory, name)
        # Before older keys are renamed: callbacks see the keys of the file, and may rename or add some.
        self.callbacks.call("on_checkpoint_load_start", checkpoint)
        checkpoint = legacy.modernise(
            checkpoint, len(context.models), len(context.optimizers), len(context.lr_schedulers)
        )
        # Models first: an optimizer puts its state on the device and into the type of its parameters.
        for model, stored in _pairs(context.models, checkpoint, "models_state_dict", name):
            with _naming_the_checkpoint("a model", name):
                legacy.load_weights(bare(model), stored)
        for optimizer, stored in _pairs(context.optimizers, checkpoint, "optimizers_state_dict", name):
            with _naming_the_checkpoint("an optimizer", name):
                load_optimizer_state(optimizer, stored)
        outside = checkpoint.get(unwrapped_parameters.KEY)
        unwrapped_parameters.put_back(outside, context.models, context.optimizers, name)
        # After the optimizers, whose learning rates the schedulers read and continue.
        for scheduler, stored in _pairs(context.lr_schedulers, checkpoint, "lr_schedulers_state_dict", name):
            scheduler.load_state_dict(stored)
        self._restore_scaler(checkpoint)
        self._restore_generators(checkpoint)
        self._restore_gradients(checkpoint, state)
        self._restore_window(checkpoint, state, window)
        if state.batches_trained and checkpoint.get("rank_data"):
            self.data.load_state_dicts(checkpoint["rank_data"])
        # Callbacks come last, because they may look at the restored models and optimizers.
        callbacks = checkpoint.get("callbacks") or {}
        if not isinstance(callbacks, dict):
            kind = type(callbacks).__name__
            raise InvalidCheckpointException(f"checkpoint {name} holds a {kind} in 'callbacks', not a dict")
        self.callbacks.load_state_dict(callbacks)

    def _restore_window(self, checkpoint: dict[str, Any], state: LoopState, window: ReportWindow) -> None:
        """Restore the metrics since the last report, unless the number of ranks has changed."""
        windows = checkpoint.get("rank_windows")
        if windows is None or not state.batches_trained:
            return
        # Only a rank knows its own batches, and a mean over ranks cannot be taken apart.
        if len(windows) != self.context.distributed.size:
            logger.warning("the next report will miss batches before the restart: other ranks have their metrics")
            return
        if windows[self.context.distributed.rank] is not None:
            window.load_state_dict(windows[self.context.distributed.rank])

    def _restore_scaler(self, checkpoint: dict[str, Any]) -> None:
        """Restore the gradient scaler, and warn if only the trial or only the checkpoint has one."""
        scaler = self.context._precision.scaler
        stored = checkpoint.get("scaler_state_dict")
        if scaler is not None and stored:
            scaler.load_state_dict(stored)
        elif scaler is not None and scaler.is_enabled():
            logger.warning(
                "checkpoint %s holds no state for the gradient scaler, which starts with its initial scale", self.name
            )
        elif stored:
            logger.warning(
                "checkpoint %s contains the state of a gradient scaler, which is ignored: the trial wrapped none",
                self.name,
            )

    def _restore_generators(self, checkpoint: dict[str, Any]) -> None:
        """Restore this rank's random generators; a rank that did not exist gets the chief's."""
        rank = self.context.distributed.rank
        states = checkpoint.get("rank_rng_states") or []
        if not isinstance(states, list):
            kind = type(states).__name__
            raise InvalidCheckpointException(f"checkpoint {self.name} holds a {kind} in 'rank_rng_states', not a list")
        # A rank that did not exist then gets the chief's state, so that the run stays reproducible.
        state = states[rank] if rank < len(states) else checkpoint.get("rng_state")
        if state is None:
            logger.warning("checkpoint %s holds no state of random generators, which are not changed", self.name)
            return
        try:
            random_generators.set_state(state, self.context.device)
        # These are raised by set_state() of the three libraries for values of a wrong type, shape or length.
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
            raise InvalidCheckpointException(
                f"checkpoint {self.name} holds a state of random generators that they do not take: {error}"
            ) from error

    def _restore_gradients(self, checkpoint: dict[str, Any], state: LoopState) -> None:
        """Restore the gradients accumulated in an unfinished aggregation window.

        If the number of ranks changed, every rank gets the mean over the saved ranks.
        """
        for optimizer in self.context.optimizers:
            clear_gradients(optimizer)  # an earlier fit in this process may have left some
        ranks: list[Any] = checkpoint.get("rank_gradients") or []
        if not ranks or not state.batches_trained:  # none were waiting, or a warm start
            return
        distributed = self.context.distributed
        mine = ranks[distributed.rank] if len(ranks) == distributed.size else _mean_of_ranks(ranks)
        self.context._optimization.put_gradients_back(mine, state.batches_trained)


def _mean_of_ranks(ranks: list[Any]) -> list[list[torch.Tensor | None]]:
    """Return the mean over ranks of each accumulated gradient."""
    # Inside a window each rank holds its local gradients, which
    # DDP averages at the end: the mean of equal means is the same.
    return [
        [None if parts[0] is None else torch.stack(parts).mean(dim=0) for parts in zip(*optimizers, strict=True)]
        for optimizers in zip(*ranks, strict=True)
    ]


def _pairs(objects: list[Any], checkpoint: dict[str, Any], key: str, name: str) -> Iterator[tuple[Any, Any]]:
    """Yield each object with its stored state; raise if their numbers differ."""
    stored = checkpoint.get(key) or []
    if not isinstance(stored, list):
        raise InvalidCheckpointException(f"checkpoint {name} holds a {type(stored).__name__} in {key!r}, not a list")
    if len(stored) != len(objects):
        raise RuntimeError(
            f"checkpoint {name} holds {len(stored)} states in {key!r}, and the trial wrapped {len(objects)}: "
            "it was saved by another trial"
        )
    yield from zip(objects, stored, strict=True)


@contextmanager
def _naming_the_checkpoint(what: str, name: str) -> Iterator[None]:
    """Name the checkpoint in errors about a state that does not fit the trial.

    A RuntimeError of torch about shapes gets a note on what to do; wrong types become InvalidCheckpointException.
    """
    try:
        yield
    except RuntimeError as error:
        error.add_note(
            f"Checkpoint {name} does not fit {what} of the trial: use the code and the hyperparameters that it was "
            "saved with, or train from the beginning: give the run another name (name= in init(), or "
            f"{NAME_VARIABLE}), or call fit() without latest_checkpoint."
        )
        raise
    except (TypeError, LookupError, AttributeError) as error:
        raise InvalidCheckpointException(
            f"checkpoint {name} holds a state that {what} of the trial does not take: {type(error).__name__}: {error}"
        ) from error
