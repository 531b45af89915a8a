"""Metrics that are not finite: stored as they are, and the effects of `fit(on_nan=...)`."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import pytorch
from determined.pytorch.checkpoint.policy import CheckpointPolicy
from determined.pytorch.metrics.nonfinite import NonFiniteError
from determined.pytorch.state import LoopState
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, checkpoints, fit, metrics


class Spoilt(LineTrial):
    """The weight becomes NaN when one of the batches `bad` is trained."""

    bad: tuple[int, ...] = (7,)
    value = math.nan

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx in self.bad:
            with torch.no_grad():
                self.weight.mul_(self.value)
        return super().train_batch(batch, epoch_idx, batch_idx)


def spoilt(**members: Any) -> type[Spoilt]:
    return type("Spoilt", (Spoilt,), members)


PERIODS: dict[str, Any] = {"checkpoint_period": pytorch.Batch(3), "reporting_period": pytorch.Batch(2)}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_by_default_one_warning_and_the_values_as_they_are(
    value: float, data_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(spoilt(value=value), max_length=pytorch.Batch(12), **PERIODS)
    warnings = [record.message for record in caplog.records if "on_nan" in record.message]
    assert len(warnings) == 1
    assert "train_batch() returned 'loss' =" in warnings[0]
    assert "for batch_idx 7" in warnings[0]
    losses = [row["loss"] for row in metrics(data_home, "training")]
    assert [math.isfinite(loss) for loss in losses] == [row < 7 for row in (2, 3, 4, 6, 8, 9, 10, 12)]


def test_stop_ends_with_an_error_and_keeps_good_checkpoints_only(data_home: Path) -> None:
    with pytest.raises(NonFiniteError, match="'loss' = nan for batch_idx 7"):
        fit(Spoilt, max_length=pytorch.Batch(12), on_nan="stop", **PERIODS)
    steps = [json.loads((one / "trial_state.json").read_text())["batches_trained"] for one in checkpoints(data_home)]
    assert steps == [3, 6]
    assert math.isnan(metrics(data_home, "training")[-1]["loss"])


class Without(LineTrial):
    """The expected result of a rollback: the batches `left_out` are not trained."""

    left_out: tuple[int, ...] = (7,)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx in self.left_out:
            return {"loss": torch.tensor(0.0)}
        return super().train_batch(batch, epoch_idx, batch_idx)


@pytest.mark.parametrize(("bad", "left_out"), [((7,), (7,)), ((7, 10), (7, 10))])
def test_rollback_continues_without_the_bad_batch(bad: Any, left_out: Any, data_home: Path) -> None:
    trial = fit(spoilt(bad=bad), max_length=pytorch.Batch(14), on_nan="rollback", **PERIODS)
    expected = fit(type("Without", (Without,), {"left_out": left_out}), max_length=pytorch.Batch(14))
    assert trial.weight.item() == expected.weight.item()
    assert trial.batch_indices[-3:] == [11, 12, 13]
    state = json.loads((checkpoints(data_home)[-2] / "trial_state.json").read_text())
    assert state["skipped"] == list(left_out)
    assert state["batches_trained"] == 14
    recorded = metrics(data_home, "rollback")
    assert recorded[-1]["skipped"] == list(left_out)
    assert all(math.isfinite(row["loss"]) for row in metrics(data_home, "training") if "loss" in row)


def test_a_complete_aggregation_window_is_skipped() -> None:
    trial = fit(
        spoilt(bad=(7,)),
        max_length=pytorch.Batch(12),
        on_nan="rollback",
        options={"aggregation_frequency": 3},
        **PERIODS,
    )
    assert trial.batch_indices[-5:] == [6, 7, 9, 10, 11]
    assert math.isfinite(trial.weight.item())


def test_what_comes_back_is_given_up_in_the_end() -> None:
    with pytest.raises(NonFiniteError, match="after 10 rollbacks without a good batch"):
        fit(spoilt(bad=tuple(range(7, 60))), max_length=pytorch.Batch(60), on_nan="rollback", **PERIODS)


def test_without_a_checkpoint_there_is_nothing_to_go_back_to() -> None:
    with pytest.raises(NonFiniteError, match="no checkpoint yet to return to"):
        fit(spoilt(bad=(1,)), max_length=pytorch.Batch(9), on_nan="rollback", **PERIODS)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="on_nan is one of warn, stop, rollback, got 'ignore'"):
        fit(LineTrial, max_length=pytorch.Batch(1), on_nan="ignore")


def rolling_back() -> list[Any]:
    class OnOneRank(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            metrics = super().train_batch(batch, epoch_idx, batch_idx)
            spoilt = batch_idx == 4 and self.context.distributed.rank == 1
            return {"loss": torch.tensor(math.nan)} if spoilt else metrics

    trial = fit(
        OnOneRank,
        max_length=pytorch.Batch(8),
        hparams={"global_batch_size": 4},
        on_nan="rollback",
        checkpoint_period=pytorch.Batch(2),
        reporting_period=pytorch.Batch(1),
    )
    return [trial.batch_indices, next(iter(trial.model.parameters())).item()]


def test_all_ranks_go_back_together(data_home: Path) -> None:
    first, second = (result.value for result in run_ranks(rolling_back, n=2, timeout=90))
    assert first[1] == second[1]
    assert first[0][-3:] == second[0][-3:] == [5, 6, 7]


class LateHarm(LineTrial):
    """The loss of batch 3 is finite; the weight after it is not."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        if batch_idx == 3:
            with torch.no_grad():
                self.weight.mul_(math.nan)
        return metrics


def test_spoilt_weights_are_not_saved(data_home: Path) -> None:
    with pytest.raises(NonFiniteError, match="a weight is NaN or infinite after batch_idx 3"):
        fit(LateHarm, max_length=pytorch.Batch(8), checkpoint_period=pytorch.Batch(2), on_nan="stop")
    trial = fit(LateHarm, max_length=pytorch.Batch(8), checkpoint_period=pytorch.Batch(2), on_nan="rollback")
    assert math.isfinite(trial.weight.item())
    for one in checkpoints(data_home):
        assert torch.load(one / "state_dict.pth")["models_state_dict"][0]["weight"].isfinite().all()


def test_half_a_window_before_a_skipped_batch_comes_to_nothing() -> None:
    """Windows of four: the checkpoint at 6 contains the gradients of 4 and 5, and 6 is bad."""
    options = {"aggregation_frequency": 4}
    periods: dict[str, Any] = {"checkpoint_period": pytorch.Batch(6), "reporting_period": pytorch.Batch(1)}
    trial = fit(spoilt(bad=(6,)), max_length=pytorch.Batch(12), on_nan="rollback", options=options, **periods)

    class NoSecondWindow(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            return {"loss": 0.0} if batch_idx in range(4, 8) else super().train_batch(batch, epoch_idx, batch_idx)

    expected = fit(NoSecondWindow, max_length=pytorch.Batch(12), options=options)
    assert trial.weight.item() == expected.weight.item()


def test_schedules_count_skipped_batches() -> None:
    class Scheduled(spoilt(bad=(5,))):  # type: ignore[misc]
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
            context.wrap_lr_scheduler(schedule, pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH)

    trial = fit(Scheduled, max_length=pytorch.Batch(13), on_nan="rollback", **PERIODS)
    assert trial.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**2)


def test_a_report_of_skipped_batches_only_asks_no_reducer() -> None:
    class Dividing(spoilt(bad=(4,))):  # type: ignore[misc]
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            self.reducer = context.wrap_reducer(lambda values: sum(values) / len(values), name="mean")

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.reducer.update(1.0)
            metrics: dict[str, Any] = super().train_batch(batch, epoch_idx, batch_idx)
            return metrics

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            self.reducer.update(1.0)
            metrics: dict[str, Any] = super().evaluate_batch(batch, batch_idx)
            return metrics

    fit(
        Dividing,
        max_length=pytorch.Batch(6),
        on_nan="rollback",
        checkpoint_period=pytorch.Batch(2),
        reporting_period=pytorch.Batch(1),
    )


def test_a_stop_during_a_rollback_is_not_forgotten(data_home: Path) -> None:
    class Signalled(Spoilt):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            metrics = super().train_batch(batch, epoch_idx, batch_idx)
            if batch_idx == 7 and self.batch_indices.count(7) == 1:
                signal.raise_signal(signal.SIGTERM)
            return metrics

    with pytest.raises(SystemExit) as ended:
        fit(Signalled, max_length=pytorch.Batch(20), on_nan="rollback", **PERIODS)
    assert ended.value.code == 143
    last = json.loads((checkpoints(data_home)[-1] / "trial_state.json").read_text())
    assert last["batches_trained"] < 12


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400)])
@pytest.mark.parametrize("smaller_is_better", [True, False])
def test_a_value_that_is_not_finite_is_never_the_best(value: float, smaller_is_better: bool) -> None:
    policy = CheckpointPolicy("best", "m", smaller_is_better)
    state = LoopState(batches_trained=1)
    assert not policy.wants({"m": value}, None, state)
    assert policy.wants({"m": 0.5}, None, state)
    assert not policy.wants({"m": value}, None, state)
