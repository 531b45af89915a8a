"""Tests of `TrialContext` and `LegacyTrial`."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import determined as det
from determined import core
from determined.errors import InternalException, InvalidExperimentException
from determined.trial import TrialFacts, per_slot_batch_size


def make(**changes: Any) -> det.TrialContext:
    arguments: dict[str, Any] = {
        "distributed": core.DummyDistributedContext(),
        "hparams": {"global_batch_size": 8, "lr": 0.1},
        "exp_conf": {"data": {"path": "x"}},
        "trial_seed": 3,
        "tensorboard_path": None,
        "belongs_to_run": True,
    }
    return det.TrialContext(TrialFacts(**(arguments | changes)))


def two_ranks() -> core.DistributedContext:
    return core.DistributedContext(rank=0, size=2, local_rank=0, local_size=2, cross_rank=0, cross_size=1)


def test_facts(tmp_path: Path) -> None:
    hparams = {"lr": 1}
    context = make(hparams=hparams, trial_id=4, experiment_id=2, steps_completed=7, tensorboard_path=tmp_path)
    assert context.get_hparams() is hparams
    assert context.get_hparam("lr") == 1
    assert (context.get_trial_id(), context.get_experiment_id(), context.get_initial_batch()) == (4, 2, 7)
    assert context.get_trial_seed() == 3
    assert context.get_data_config() == {"path": "x"}
    assert context.get_tensorboard_path() == tmp_path


def test_what_was_not_given_is_said() -> None:
    context = make(hparams=None, exp_conf=None, trial_seed=None)
    with pytest.raises(ValueError, match="hparams"):
        context.get_hparams()
    with pytest.raises(ValueError, match="exp_conf"):
        context.get_experiment_config()
    with pytest.raises(InternalException, match="seed"):
        context.get_trial_seed()
    with pytest.raises(ValueError, match="global_batch_size"):
        context.get_per_slot_batch_size()
    with pytest.raises(ValueError, match="'momentum'"):
        make().get_hparam("momentum")


def test_reading_the_batch_size_as_a_hyperparameter_warns(caplog: pytest.LogCaptureFixture) -> None:
    assert make().get_hparam("global_batch_size") == 8
    assert "get_per_slot_batch_size" in caplog.text


def test_batch_sizes_are_shared_by_the_ranks(caplog: pytest.LogCaptureFixture) -> None:
    context = make(hparams={"global_batch_size": 9}, distributed=two_ranks())
    assert (context.get_per_slot_batch_size(), context.get_global_batch_size()) == (4, 8)
    assert "cannot be shared evenly" in caplog.text


@pytest.mark.parametrize("value", ["8", 8.0, True, [8]])
def test_a_batch_size_must_be_an_integer(value: Any) -> None:
    with pytest.raises(InvalidExperimentException, match="global_batch_size"):
        make(hparams={"global_batch_size": value})


def test_each_rank_needs_a_record() -> None:
    with pytest.raises(InvalidExperimentException, match="too small"):
        make(hparams={"global_batch_size": 1}, distributed=two_ranks())
    with pytest.raises(InvalidExperimentException, match="-4"):
        make(hparams={"global_batch_size": -4})
    assert per_slot_batch_size(0, 2) is None


def test_stop_requests_take_a_bool_only() -> None:
    context = make()
    context.set_stop_requested(True)
    assert context.get_stop_requested() is True
    with pytest.raises(AssertionError, match="1"):
        context.set_stop_requested(1)  # type: ignore[arg-type]


def test_env_can_be_read() -> None:
    context = make(trial_id=4, steps_completed=2)
    assert context.env.det_trial_id == "4"
    assert context.env.hparams is context.get_hparams()
    assert context.env.steps_completed == 2
    assert context.env.managed_training is True
    with pytest.raises(FrozenInstanceError):
        context.env.trial_seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("steps", "config", "first"),
    [
        (0, {}, 1),
        (99, {}, 1),
        (200, {}, 3),
        (200, {"scheduling_unit": 50}, 5),
        (200, {"batches_per_step": 50}, 5),
        (200, {"scheduling_unit": 20, "batches_per_step": 50}, 11),
    ],
)
def test_the_first_step_of_a_process(steps: int, config: dict[str, int], first: int) -> None:
    assert make(steps_completed=steps, exp_conf=config).env.first_step() == first


def test_env_knows_the_run() -> None:
    with core.init() as run:
        env = make(info=run.info).env
    assert env.allocation_id == run.info.allocation_id
    assert env.on_cluster is False


def test_from_config_draws_what_is_not_constant() -> None:
    config = {
        "hyperparameters": {
            "global_batch_size": {"type": "const", "val": 4},
            "lr": {"type": "double", "minval": 0.1, "maxval": 0.2},
        },
        "reproducibility": {"experiment_seed": 11},
        "resources": {"slots_per_trial": 16},
        "checkpoint_storage": {"type": "nonsense"},
    }
    context = det.TrialContext.from_config(config)
    assert context.get_per_slot_batch_size() == 4
    assert 0.1 <= context.get_hparam("lr") <= 0.2
    assert context.get_trial_seed() == 11
    assert "resources" not in context.get_experiment_config()
    assert context.distributed.size == 1
    assert context.env.managed_training is False


def test_trials_hold_their_context() -> None:
    context = make()
    assert det.Trial is det.LegacyTrial
    assert det.LegacyTrial(context).context is context
    assert det.LegacyTrial.trial_context_class is None
    assert det.LegacyTrial.trial_controller_class is None
