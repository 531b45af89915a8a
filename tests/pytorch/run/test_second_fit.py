"""Another fit in the same context continues: no curve is overwritten, and an interrupted length is finished."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import pytorch
from tests.helpers.records import opened
from tests.helpers.trials import EPOCH_LENGTH, HPARAMS, LineTrial, line

REPORTS: dict[str, Any] = {"reporting_period": pytorch.Batch(1), "validation_period": pytorch.Epoch(1)}


class Shuffled(LineTrial):
    """Gets the records in a random order, and can be interrupted."""

    interrupt_at = -1
    how: Any = None

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.seen: list[tuple[int, int]] = []

    def build_training_data_loader(self) -> Any:
        return pytorch.DataLoader(line(), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == self.interrupt_at:
            self.interrupt_at = -1
            self.how()
        self.seen.append((epoch_idx, batch_idx))
        return super().train_batch(batch, epoch_idx, batch_idx)


def weight(trial: Any) -> float:
    return float(next(trial.context.models[0].parameters()).detach().flatten()[0])


def in_one(length: int) -> float:
    with pytorch.init(hparams=HPARAMS, seed=7) as context:
        trial = Shuffled(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(length))
        return weight(trial)


def steps(data_home: Path, group: str) -> list[int | None]:
    with opened(data_home) as store:
        newest = max(run.trial_id for run in store.runs())
        return [row.steps_completed for row in store.metrics(newest, group)]


def test_lengths_add_up_and_curves_continue(data_home: Path) -> None:
    expected = in_one(4)
    with pytorch.init(hparams=HPARAMS, seed=7) as context:
        trial = Shuffled(context)
        trainer = pytorch.Trainer(trial, context)
        for length in (1, 2, 1):
            trainer.fit(max_length=pytorch.Epoch(length), **REPORTS)
    assert trial.seen == [(batch // EPOCH_LENGTH, batch) for batch in range(4 * EPOCH_LENGTH)]
    assert weight(trial) == expected, "the data come in the same order as in one fit"
    assert steps(data_home, "training") == list(range(1, 4 * EPOCH_LENGTH + 1))
    assert steps(data_home, "validation") == [EPOCH_LENGTH * epoch for epoch in (1, 2, 3, 4)]
    with opened(data_home) as store:
        newest = max(run.trial_id for run in store.runs())
        saved = [row.steps_completed for row in store.checkpoints(newest)]
    assert saved == [EPOCH_LENGTH * epoch for epoch in (4, 3, 2, 1)]


def test_lengths_in_batches_and_another_trainer() -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        trial = Shuffled(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(2))
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(3))
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(1))
    assert [batch for _, batch in trial.seen] == list(range(5 + EPOCH_LENGTH))


def fail() -> None:
    raise ZeroDivisionError


def send_sigint() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("how", "raised"), [(fail, ZeroDivisionError), (send_sigint, SystemExit)], ids=["an error", "SIGINT"]
)
def test_an_interrupted_length_is_finished(data_home: Path, how: Any, raised: type[BaseException]) -> None:
    expected = in_one(3)
    with pytorch.init(hparams=HPARAMS, seed=7) as context:
        trial = Shuffled(context)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(1), **REPORTS)
        trial.interrupt_at, trial.how = EPOCH_LENGTH + 2, how
        with pytest.raises(raised):
            trainer.fit(max_length=pytorch.Epoch(2), **REPORTS)
        assert len(trial.seen) < 3 * EPOCH_LENGTH
        trainer.fit(max_length=pytorch.Epoch(2), **REPORTS)
    assert [batch for _, batch in trial.seen] == list(range(3 * EPOCH_LENGTH))
    assert weight(trial) == expected
    assert steps(data_home, "training") == list(range(1, 3 * EPOCH_LENGTH + 1))


def test_a_shorter_length_finishes_the_interrupted_one(
    capfd: pytest.CaptureFixture[str], data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shown, trained and recorded numbers agree; the fit after that counts from the end."""
    monkeypatch.setenv("DET_PROGRESS", "1")
    with pytorch.init(hparams=HPARAMS) as context:
        trial = Shuffled(context)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(1))
        trial.interrupt_at, trial.how = 3 * EPOCH_LENGTH, send_sigint
        with pytest.raises(SystemExit):
            trainer.fit(max_length=pytorch.Epoch(4), **REPORTS)
        capfd.readouterr()
        trainer.fit(max_length=pytorch.Epoch(1), **REPORTS)
        shown = capfd.readouterr().err
        assert f"Finishing the length of the interrupted fit: training to epoch 5 (batch {5 * EPOCH_LENGTH})" in shown
        assert f"validation after epoch 4/5, batch {4 * EPOCH_LENGTH}/{5 * EPOCH_LENGTH}" in shown
        assert [batch for _, batch in trial.seen] == list(range(5 * EPOCH_LENGTH))
        trainer.fit(max_length=pytorch.Epoch(1), **REPORTS)
    assert [batch for _, batch in trial.seen] == list(range(6 * EPOCH_LENGTH))
    assert "Finishing" not in capfd.readouterr().err
    with opened(data_home) as store:
        assert store.runs()[0].progress == 1.0


def test_a_longer_length_counts_from_where_the_interrupted_one_began() -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        trial = Shuffled(context)
        trial.interrupt_at, trial.how = EPOCH_LENGTH, send_sigint
        with pytest.raises(SystemExit):
            pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(2))
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(3))
    assert len(trial.seen) == 3 * EPOCH_LENGTH


class Wider(LineTrial):
    def make_model(self) -> torch.nn.Module:
        return torch.nn.Linear(1, 1, bias=True)


def test_a_refused_fit_is_not_continued(data_home: Path) -> None:
    """Its counters are those of the checkpoint that did not fit: the next fit starts from the beginning."""
    with pytorch.init(hparams=HPARAMS, name="one") as context:
        pytorch.Trainer(LineTrial(context), context).fit(max_length=pytorch.Epoch(1))
    with pytorch.init(hparams=HPARAMS, name="one") as context:
        trial = Wider(context)
        with pytest.raises(RuntimeError) as refused:
            pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(2), latest_checkpoint="latest")
        assert "give the run another name (name= in init(), or DET_RUN_NAME)" in refused.value.__notes__[0]
        with opened(data_home) as store:
            assert [row.state for row in store.experiments.list()] == ["COMPLETED"]
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(1))
    assert trial.batch_indices == list(range(EPOCH_LENGTH))
    with opened(data_home) as store:
        assert [row.state for row in store.experiments.list()] == ["COMPLETED", "COMPLETED"]


class StopsOnce(Shuffled):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 1:
            self.context.set_stop_requested(True)
        return super().train_batch(batch, epoch_idx, batch_idx)


def test_a_request_to_stop_is_for_one_fit() -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        trial = StopsOnce(context)
        trainer = pytorch.Trainer(trial, context)
        for seen in (2, 6):
            trainer.fit(max_length=pytorch.Batch(6), reporting_period=pytorch.Batch(1))
            assert len(trial.seen) == seen


def test_a_checkpoint_is_restored_in_place_of_memory() -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        trial = Shuffled(context)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(1))
        before = weight(trial)
        trainer.fit(max_length=pytorch.Epoch(3))
        torch.nn.init.zeros_(next(context.models[0].parameters()))
        trainer.fit(max_length=pytorch.Epoch(3), latest_checkpoint="latest")
        assert len(trial.seen) == 4 * EPOCH_LENGTH, "the newest checkpoint is of batch 24, beyond Epoch(3)"
        assert weight(trial) not in (0.0, before)
