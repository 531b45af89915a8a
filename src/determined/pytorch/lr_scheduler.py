"""LRScheduler: a learning-rate scheduler and the rule by which the loop steps it."""

from __future__ import annotations

import enum
from typing import Any


class LRScheduler:
    """A torch scheduler together with when to step it.

    Most programs call `context.wrap_lr_scheduler`; this class is what `create_lr_scheduler` returned in the
    first generation, and what `context.lr_schedulers` holds in all of them.
    """

    class StepMode(enum.Enum):
        """When the loop calls `scheduler.step()`, always without arguments.

        Every `frequency`-th time: after an epoch, after a batch, never (`MANUAL_STEP`: the program calls it,
        with any arguments), or after an optimizer step, which under gradient aggregation comes once in
        `aggregation_frequency` batches.
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
        """The scheduler inside."""
        return self._scheduler

    @property
    def step_mode(self) -> StepMode:
        """When it is stepped."""
        return self._step_mode

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Step the torch scheduler."""
        self._scheduler.step(*args, **kwargs)

    def get_last_lr(self) -> list[Any]:
        """The learning rates that are in force."""
        return self._scheduler.get_last_lr()  # type: ignore[no-any-return]

    def get_lr(self) -> list[Any]:
        """The learning rates that are in force, under their name of 0.12.

        (torch's own `get_lr` computes the *next* rates and warns when called from outside.)
        """
        return self.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The state of the scheduler inside."""
        return self._scheduler.state_dict()  # type: ignore[no-any-return]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Give the scheduler inside its state again."""
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
    """How often a scheduler steps after `batch_idx`, which is a batch on which the optimizers step.

    Between two such batches schedulers rest, and catch up on the next one. `count_batches` restores the rule of
    0.38.1 for STEP_EVERY_OPTIMIZER_STEP, which counted batches where it should have counted optimizer steps.
    """
    done = batch_idx + 1
    if mode is LRScheduler.StepMode.STEP_EVERY_BATCH:
        return done // frequency - (done - aggregation) // frequency
    if mode is LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP:
        count = done if count_batches else done // aggregation
        return int(count % frequency == 0)
    if mode is LRScheduler.StepMode.STEP_EVERY_EPOCH:
        counted = batch_idx + epoch_offset
        ended, will_have_ended = counted // epoch_length, (counted + aggregation) // epoch_length
        return will_have_ended // frequency - ended // frequency
    return 0
