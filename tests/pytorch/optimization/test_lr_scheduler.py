"""Learning-rate schedulers: after which batches the loop steps them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from determined import pytorch
from determined.errors import InvalidExperimentException
from determined.pytorch import LRScheduler
from tests.helpers.trials import EPOCH_LENGTH, LineTrial, Recorder, fit, with_callbacks

EPOCH = LRScheduler.StepMode.STEP_EVERY_EPOCH
BATCH = LRScheduler.StepMode.STEP_EVERY_BATCH
OPTIMIZER = LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP
MANUAL = LRScheduler.StepMode.MANUAL_STEP

ALL = list(range(18))
ODD = list(range(1, 18, 2))
THIRD = list(range(2, 18, 3))


def twice(batches: list[int]) -> list[int]:
    return sorted(batches * 2)


# Mode, frequency, and for an aggregation of 1, 2 and 4 the batches after which it steps: 18 batches, 6 an epoch.
TABLE = [
    (EPOCH, 1, [5, 11, 17], [5, 11, 17], [3, 11, 15]),
    (EPOCH, 2, [11], [11], [11]),
    (EPOCH, 3, [17], [17], [15]),
    (BATCH, 1, ALL, twice(ODD), sorted([3, 7, 11, 15] * 4)),
    (BATCH, 2, ODD, ODD, twice([3, 7, 11, 15])),
    (BATCH, 3, THIRD, [3, 5, 9, 11, 15, 17], [3, 7, 11, 11, 15]),
    (OPTIMIZER, 1, ALL, ODD, [3, 7, 11, 15]),
    (OPTIMIZER, 2, ODD, [3, 7, 11, 15], [7, 15]),
    (OPTIMIZER, 3, THIRD, [5, 11, 17], [11]),
    (MANUAL, 1, [], [], []),
]

# Where releases up to 0.38 counted batches instead.
OLD_TABLE = [
    (OPTIMIZER, 1, ALL, ODD, [3, 7, 11, 15]),
    (OPTIMIZER, 2, ODD, ODD, [3, 7, 11, 15]),
    (OPTIMIZER, 3, THIRD, [5, 11, 17], [11]),
]


class Counting(torch.optim.lr_scheduler.LRScheduler):
    """Records the batch at each step of the loop."""

    def __init__(self, optimizer: torch.optim.Optimizer, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.steps: list[int] = []
        super().__init__(optimizer)
        self.steps.clear()

    def get_lr(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def step(self, *args: Any) -> None:
        if self.context._current_batch_idx is not None:
            self.steps.append(self.context.current_train_batch())
        super().step(*args)


def table_trial(table: list[Any], old_rule: bool) -> type[LineTrial]:
    """All rows of a table at once: schedulers do not affect each other."""

    class Table(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            if old_rule:
                context.experimental.count_batches_for_optimizer_steps()
            self.counting = []
            for mode, frequency, *_ in table:
                counting = Counting(self.optimizer, context)
                assert context.wrap_lr_scheduler(counting, mode, frequency) is counting
                self.counting.append(counting)

    return Table


@pytest.mark.parametrize("old_rule", [False, True])
@pytest.mark.parametrize(("column", "aggregation"), [(2, 1), (3, 2), (4, 4)])
def test_when_schedulers_step(column: int, aggregation: int, old_rule: bool) -> None:
    assert EPOCH_LENGTH == 6
    table = OLD_TABLE if old_rule else TABLE
    trial: Any = fit(
        table_trial(table, old_rule),
        max_length=pytorch.Batch(18),
        reporting_period=pytorch.Batch(5),
        options={"aggregation_frequency": aggregation},
    )
    for row, counting in zip(table, trial.counting, strict=True):
        assert counting.steps == row[column], f"{row[0]}, frequency {row[1]}, aggregation {aggregation}"


def test_batch_frequency_equal_to_aggregation_is_a_step_at_each_update() -> None:
    table: list[tuple[Any, int, list[int]]] = [(BATCH, 4, [])]
    trial: Any = fit(table_trial(table, False), max_length=pytorch.Batch(18), options={"aggregation_frequency": 4})
    assert trial.counting[0].steps == [3, 7, 11, 15]


def test_schedulers_step_in_wrap_order_after_the_optimizer() -> None:
    order: list[str] = []

    class Named(Counting):
        name = ""

        def step(self, *args: Any) -> None:
            order.append(self.name)
            super().step(*args)

    class Two(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            for name in ("a", "b"):
                scheduler = Named(self.optimizer, context)
                scheduler.name = name
                context.wrap_lr_scheduler(scheduler, BATCH)
            order.clear()

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            order.append("train")
            return super().train_batch(batch, epoch_idx, batch_idx)

    fit(Two, max_length=pytorch.Batch(2))
    assert order == ["train", "a", "b"] * 2


def test_learning_rates_follow_and_continue_after_a_resume(data_home: Any) -> None:
    from tests.helpers.trials import checkpoints

    class Decaying(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.5)
            context.wrap_lr_scheduler(scheduler, EPOCH)
            self.rates: list[float] = []

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.rates.append(self.optimizer.param_groups[0]["lr"])
            return super().train_batch(batch, epoch_idx, batch_idx)

    whole = fit(Decaying, max_length=pytorch.Epoch(3))
    assert whole.rates == [0.1] * 6 + [0.05] * 6 + [0.025] * 6
    first = fit(Decaying, max_length=pytorch.Batch(8))
    rest = fit(Decaying, max_length=pytorch.Epoch(3), latest_checkpoint=str(checkpoints(data_home)[-1]))
    assert first.rates + rest.rates == whole.rates


def test_plateau_is_stepped_in_a_callback() -> None:
    class Plateau(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=0, factor=0.1)
            self.plateau = context.wrap_lr_scheduler(plateau, MANUAL)

        def build_callbacks(self) -> dict[str, Any]:
            plateau = self.plateau

            class Step(pytorch.PyTorchCallback):
                def on_validation_end(self, metrics: dict[str, Any]) -> None:
                    plateau.step(1.0)

            return {"step": Step()}

    trial = fit(Plateau, max_length=pytorch.Batch(4), validation_period=pytorch.Batch(2))
    assert trial.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


@pytest.mark.parametrize("mode", [EPOCH, BATCH, OPTIMIZER])
def test_plateau_in_an_automatic_mode_is_refused(mode: Any) -> None:
    class Plateau(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.wrap_lr_scheduler(torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer), mode)

    with pytest.raises(InvalidExperimentException, match="MANUAL_STEP"):
        fit(Plateau, max_length=pytorch.Batch(1))


# The class


def make_scheduler() -> torch.optim.lr_scheduler.StepLR:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    optimizer.step()
    return scheduler


def test_step_modes_have_the_numbers_of_all_releases() -> None:
    assert {mode.name: mode.value for mode in LRScheduler.StepMode} == {
        "STEP_EVERY_EPOCH": 1,
        "STEP_EVERY_BATCH": 2,
        "MANUAL_STEP": 3,
        "STEP_EVERY_OPTIMIZER_STEP": 4,
    }


def test_the_wrapper_forwards() -> None:
    scheduler = make_scheduler()
    wrapped = LRScheduler(scheduler, MANUAL, frequency=3)
    assert (wrapped._scheduler, wrapped._step_mode, wrapped._frequency) == (scheduler, MANUAL, 3)
    assert (wrapped.scheduler, wrapped.step_mode) == (scheduler, MANUAL)
    wrapped.step()
    assert wrapped.get_last_lr() == wrapped.get_lr() == [0.5]
    state = wrapped.state_dict()
    assert state == scheduler.state_dict()
    wrapped.step()
    wrapped.load_state_dict(state)
    assert scheduler.last_epoch == 1


@pytest.mark.parametrize("mode", ["STEP_EVERY_EPOCH", 1, None])
def test_a_mode_of_another_type_is_refused(mode: Any) -> None:
    with pytest.raises(TypeError, match="step_mode"):
        LRScheduler(make_scheduler(), mode)


def test_bad_schedulers_and_frequencies_are_refused() -> None:
    with pytest.raises(TypeError, match="scheduler"):
        LRScheduler(None, MANUAL)
    for frequency in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match="frequency"):
            LRScheduler(make_scheduler(), BATCH, frequency)  # type: ignore[arg-type]


def test_schedulers_step_before_the_epoch_ends() -> None:
    rates: list[float] = []

    class Noting(Recorder):
        def on_training_epoch_end(self, epoch_idx: int) -> None:
            rates.append(trial_class.optimizers[-1].param_groups[0]["lr"])

    class Decaying(LineTrial):
        optimizers: list[Any] = []

        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            self.optimizers.append(self.optimizer)
            context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.5), EPOCH)

    trial_class = with_callbacks(Noting(), base=Decaying)
    fit(trial_class, max_length=pytorch.Epoch(2))
    assert rates == [0.05, 0.025]
