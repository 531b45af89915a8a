"""`LRScheduler`: a learning-rate scheduler together with the rule by which the loop steps it."""

from __future__ import annotations

import enum
from typing import Any


class LRScheduler:
    """A torch scheduler and when to step it.

    Most programs call `context.wrap_lr_scheduler` instead. First-generation trials return this class from
    `create_lr_scheduler`, and `context.lr_schedulers` holds instances of it.

    Args:
        scheduler: a torch learning-rate scheduler.
        step_mode: when the loop steps it.
        frequency: step only every `frequency`-th time; a positive integer, 1 by default.

    Raises TypeError or ValueError for arguments of a wrong type or value.
    """

    class StepMode(enum.Enum):
        """When the loop calls `scheduler.step()`, always without arguments.

        `STEP_EVERY_EPOCH`: after each epoch. `STEP_EVERY_BATCH`: after each batch. `MANUAL_STEP`: never; the program
        steps it. `STEP_EVERY_OPTIMIZER_STEP`: after each optimizer step, which with gradient aggregation happens once
        in `aggregation_frequency` batches. With a frequency n, only every n-th time.
        """

        STEP_EVERY_EPOCH = 1
        STEP_EVERY_BATCH = 2
        MANUAL_STEP = 3
        STEP_EVERY_OPTIMIZER_STEP = 4

    def __init__(self, scheduler: Any, step_mode: StepMode, frequency: int = 1) -> None:
        if scheduler is None:
            raise TypeError("LRScheduler takes a scheduler, got None")
        if not isinstance(step_mode, LRScheduler.StepMode):
            raise TypeError(f"step_mode is a pytorch.LRScheduler.StepMode, got {step_mode!r}")
        if not isinstance(frequency, int) or frequency < 1:
            raise ValueError(f"frequency is a positive whole number, got {frequency!r}")
        self._scheduler = scheduler
        self._step_mode = step_mode
        self._frequency = frequency

    @property
    def scheduler(self) -> Any:
        """The wrapped torch scheduler."""
        return self._scheduler

    @property
    def step_mode(self) -> StepMode:
        """When the scheduler is stepped."""
        return self._step_mode

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Step the torch scheduler."""
        self._scheduler.step(*args, **kwargs)

    def get_last_lr(self) -> list[Any]:
        """Return the current learning rates, one per parameter group."""
        return self._scheduler.get_last_lr()  # type: ignore[no-any-return]

    def get_lr(self) -> list[Any]:
        """Return the current learning rates; the name of `get_last_lr` in 0.12.

        (torch's own `get_lr` computes the *next* rates and warns when it is called outside of `step`.)
        """
        return self.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the wrapped scheduler."""
        return self._scheduler.state_dict()  # type: ignore[no-any-return]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of the wrapped scheduler."""
        self._scheduler.load_state_dict(state_dict)


def steps_after(
    mode: LRScheduler.StepMode,
    frequency: int,
    batch_idx: int,
    aggregation: int,
    epoch_length: int,
    count_batches: bool = False,
    epoch_offset: int = 0,
) -> int:
    """Return how many times a scheduler steps after `batch_idx`, a batch on which the optimizers step.

    Schedulers do not step on the batches in between, and catch up here. `count_batches` selects the rule of 0.38.1 for
    STEP_EVERY_OPTIMIZER_STEP, which counted batches instead of optimizer steps.
    """
    done = batch_idx + 1
    if mode is LRScheduler.StepMode.STEP_EVERY_BATCH:
        # Counted from the start of training, so that the result does not depend on where a run was interrupted.
        return done // frequency - (done - aggregation) // frequency
    if mode is LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP:
        # 0.38.1 tested the number of batches, which with a frequency of several steps gave another schedule.
        count = done if count_batches else done // aggregation
        return int(count % frequency == 0)
    if mode is LRScheduler.StepMode.STEP_EVERY_EPOCH:
        counted = batch_idx + epoch_offset
        # Counted over the complete window, since an epoch may end on a batch on which no optimizer steps.
        ended, will_have_ended = counted // epoch_length, (counted + aggregation) // epoch_length
        return will_have_ended // frequency - ended // frequency
    return 0
