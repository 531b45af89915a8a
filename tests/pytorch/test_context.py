"""The methods of the context, and what they reject."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import determined as det
from determined import pytorch
from determined.errors import InternalException, InvalidExperimentException
from tests.helpers.trials import HPARAMS, LineTrial, fit, line

MANUAL = pytorch.LRScheduler.StepMode.MANUAL_STEP


@pytest.fixture
def context() -> Iterator[pytorch.PyTorchTrialContext]:
    """Return the context of a run with one rank."""
    with pytorch.init(hparams={"global_batch_size": 8, "lr": 0.5}, exp_conf={"data": {"url": "here"}}) as context:
        yield context


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


class TestWhereItComesFrom:
    def test_init(self, context: pytorch.PyTorchTrialContext) -> None:
        assert isinstance(context, det.TrialContext)
        assert context.device == torch.device("cpu")
        assert context.distributed.size == 1
        assert isinstance(context.experimental, pytorch.PyTorchExperimentalContext)
        assert (context.models, context.optimizers, context.lr_schedulers) == ([], [], [])
        assert context.profiler is None
        assert context.env.managed_training

    def test_from_config_draws_hyperparameters(self) -> None:
        config = {
            "hyperparameters": {
                "global_batch_size": 4,
                "lr": {"type": "double", "minval": 1.0, "maxval": 2.0},
                "kind": {"type": "const", "val": "x"},
            },
            "reproducibility": {"experiment_seed": 33},
        }
        context = pytorch.PyTorchTrialContext.from_config(config)
        assert isinstance(context, pytorch.PyTorchTrialContext)
        assert 1 <= context.get_hparam("lr") <= 2
        assert context.get_hparam("kind") == "x"
        assert context.get_trial_seed() == 33
        assert context.get_per_slot_batch_size() == 4
        assert pytorch.PyTorchTrialContext.from_config({}).get_trial_seed() == 0

    @pytest.mark.parametrize("how", ["from_config", "load"])
    def test_a_context_without_a_run_allows_a_custom_loop(self, how: str) -> None:
        if how == "from_config":
            context: Any = pytorch.PyTorchTrialContext.from_config({"hyperparameters": HPARAMS})
        else:
            context = pytorch.CheckpointLoadContext(hparams=HPARAMS)
        trial = LineTrial(context)
        before = trial.weight.item()
        for number, batch in enumerate(trial.build_training_data_loader().get_data_loader()):
            trial.train_batch(batch, 0, number)
        assert trial.batch_indices == [*range(6)]
        assert trial.weight.item() != before
        model, optimizer = object(), object()
        assert context.configure_apex_amp(model, optimizer) == (model, optimizer)

    def test_load_context(self) -> None:
        context = pytorch.CheckpointLoadContext(hparams={"a": 1}, exp_conf={"b": 2})
        assert context.get_hparams() == {"a": 1}
        assert context.get_experiment_config() == {"b": 2}
        assert context.get_trial_seed() == 0
        assert context.distributed.size == 1
        assert not context.env.managed_training

    def test_a_trial_that_profiles_and_writes_can_be_loaded_without_a_run(self) -> None:
        context = pytorch.CheckpointLoadContext()
        context.set_profiler(activities=[torch.profiler.ProfilerActivity.CPU])
        assert isinstance(context.get_tensorboard_path(), Path)

    def test_a_context_without_a_run_cannot_be_trained(self) -> None:
        context = pytorch.CheckpointLoadContext(hparams=HPARAMS)
        with pytest.raises(InternalException, match="init"):
            pytorch.Trainer(LineTrial(context), context).fit(max_length=pytorch.Batch(1))


class TestInformation:
    def test_hparams(self, caplog: pytest.LogCaptureFixture) -> None:
        given = {"global_batch_size": 8, "lr": 0.5}
        with pytorch.init(hparams=given) as context:
            assert context.get_hparams() is given
            assert context.get_hparam("lr") == 0.5
            assert caplog.text == ""
            assert context.get_hparam("global_batch_size") == 8
            assert "get_per_slot_batch_size" in caplog.text
            with pytest.raises(ValueError, match="'depth'"):
                context.get_hparam("depth")

    def test_without_hparams_and_configuration(self) -> None:
        with pytorch.init() as context:
            for method in (
                context.get_hparams,
                lambda: context.get_hparam("lr"),
                context.get_global_batch_size,
                context.get_per_slot_batch_size,
                context.get_experiment_config,
                context.get_data_config,
            ):
                with pytest.raises(ValueError):
                    method()

    def test_sizes_and_configuration(self, context: pytorch.PyTorchTrialContext) -> None:
        assert (context.get_global_batch_size(), context.get_per_slot_batch_size()) == (8, 8)
        assert context.get_experiment_config() == {"data": {"url": "here"}}
        assert context.get_data_config() == {"url": "here"}
        with pytorch.init(exp_conf={}) as other:
            assert other.get_data_config() == {}

    @pytest.mark.parametrize("size", ["8", 8.0, [8]])
    def test_batch_sizes_that_are_no_number(self, size: Any) -> None:
        with pytest.raises(InvalidExperimentException, match="global_batch_size"):
            with pytorch.init(hparams={"global_batch_size": size}):
                raise AssertionError("not reached")

    @pytest.mark.parametrize("hparams", [{}, {"global_batch_size": 0}, {"global_batch_size": None}])
    def test_no_batch_size(self, hparams: dict[str, Any]) -> None:
        with pytorch.init(hparams=hparams) as context:
            with pytest.raises(ValueError, match="global_batch_size"):
                context.get_per_slot_batch_size()

    def test_a_size_that_the_ranks_cannot_share_evenly(self, caplog: pytest.LogCaptureFixture) -> None:
        from determined.trial import per_slot_batch_size

        assert per_slot_batch_size(9, 2) == 4
        assert "9" in caplog.text
        with pytest.raises(InvalidExperimentException, match="global_batch_size"):
            per_slot_batch_size(1, 2)

    def test_ids_seed_and_start(self, context: pytorch.PyTorchTrialContext) -> None:
        assert (context.get_experiment_id(), context.get_trial_id()) == (0, 0)
        assert isinstance(context.get_trial_seed(), int)
        assert context.get_initial_batch() == 0

    def test_tensorboard_path_is_a_directory_outside_the_work_directory(
        self, context: pytorch.PyTorchTrialContext, data_home: Path
    ) -> None:
        assert context.get_tensorboard_path().is_relative_to(data_home)

    def test_stop_requests(self, context: pytorch.PyTorchTrialContext) -> None:
        assert context.get_stop_requested() is False
        context.set_stop_requested(True)
        assert context.get_stop_requested() is True
        with pytest.raises(AssertionError):
            context.set_stop_requested(1)  # type: ignore[arg-type]

    def test_tensorboard_switch(self, context: pytorch.PyTorchTrialContext) -> None:
        assert context.get_enable_tensorboard_logging() is True
        context.set_enable_tensorboard_logging(False)
        assert context.get_enable_tensorboard_logging() is False
        with pytest.raises(AssertionError):
            context.set_enable_tensorboard_logging("no")  # type: ignore[arg-type]
        with pytorch.init(enable_tensorboard_logging=False) as other:
            assert other.get_enable_tensorboard_logging() is False

    @pytest.mark.parametrize("name", ["is_epoch_start", "is_epoch_end", "current_train_epoch", "current_train_batch"])
    def test_there_is_no_batch_before_training(self, context: pytorch.PyTorchTrialContext, name: str) -> None:
        with pytest.raises(InternalException):
            getattr(context, name)()

    def test_the_position_stays_during_validation(self) -> None:
        class Asking(LineTrial):
            seen: list[Any] = []

            def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
                context = self.context
                self.seen.append((context.current_train_batch(), context.current_train_epoch(), context.is_epoch_end()))
                return super().evaluate_batch(batch, batch_idx)

        trial = fit(Asking, max_length=pytorch.Batch(12))
        assert set(trial.seen) == {(11, 1, True)}

    def test_initial_batch_after_a_resume(self, data_home: Path) -> None:
        from tests.helpers.trials import checkpoints

        class Asking(LineTrial):
            def build_training_data_loader(self) -> pytorch.DataLoader:
                self.initial = self.context.get_initial_batch()
                return super().build_training_data_loader()

        assert fit(Asking, max_length=pytorch.Batch(4)).initial == 0
        uuid = checkpoints(data_home)[0].name
        assert fit(Asking, max_length=pytorch.Batch(5), latest_checkpoint=uuid).initial == 4


class TestWrapping:
    def test_model_and_optimizer_are_returned_as_they_are(self, context: pytorch.PyTorchTrialContext) -> None:
        model = torch.nn.Linear(1, 1)
        assert context.wrap_model(model) is model
        optimizer = sgd(model)
        assert context.wrap_optimizer(optimizer) is optimizer
        assert (context.models, context.optimizers) == ([model], [optimizer])

    @pytest.mark.parametrize("wrong", [None, "model", torch.nn.Linear])
    def test_no_model(self, context: pytorch.PyTorchTrialContext, wrong: Any) -> None:
        with pytest.raises(TypeError, match="wrap_model"):
            context.wrap_model(wrong)

    def test_no_optimizer(self, context: pytorch.PyTorchTrialContext) -> None:
        with pytest.raises(TypeError, match="wrap_optimizer"):
            context.wrap_optimizer(torch.nn.Linear(1, 1))  # type: ignore[arg-type]

    def test_options_of_ddp_do_not_disturb_one_rank(self, context: pytorch.PyTorchTrialContext) -> None:
        model = torch.nn.Linear(1, 1)
        assert context.wrap_model(model, find_unused_parameters=True, static_graph=False) is model

    def test_backward_passes_per_step(self, context: pytorch.PyTorchTrialContext) -> None:
        model = context.wrap_model(torch.nn.Linear(1, 1))
        context.wrap_optimizer(sgd(model), backward_passes_per_step=2)
        with pytest.raises(InvalidExperimentException, match="backward_passes_per_step"):
            context.wrap_optimizer(sgd(model), backward_passes_per_step=0)

    def test_a_foreign_optimizer_is_worth_a_warning(
        self, context: pytorch.PyTorchTrialContext, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = context.wrap_model(torch.nn.Linear(1, 1))
        context.wrap_optimizer(sgd(model))
        assert caplog.text == ""
        context.wrap_optimizer(sgd(torch.nn.Linear(1, 1)))
        assert "wrap_optimizer" in caplog.text

    def test_lr_scheduler(self, context: pytorch.PyTorchTrialContext) -> None:
        optimizer = context.wrap_optimizer(sgd(torch.nn.Linear(1, 1)))
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        assert context.wrap_lr_scheduler(scheduler, MANUAL, frequency=2) is scheduler
        (wrapped,) = context.lr_schedulers
        assert isinstance(wrapped, pytorch.LRScheduler)
        assert (wrapped._scheduler, wrapped._step_mode, wrapped._frequency) == (scheduler, MANUAL, 2)
        assert wrapped.get_lr() == wrapped.get_last_lr() == [0.1]

    def test_lr_schedulers_that_are_refused(self, context: pytorch.PyTorchTrialContext) -> None:
        optimizer = context.wrap_optimizer(sgd(torch.nn.Linear(1, 1)))
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        with pytest.raises(InvalidExperimentException, match="MANUAL_STEP"):
            context.wrap_lr_scheduler(plateau, pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH)
        assert context.wrap_lr_scheduler(plateau, MANUAL) is plateau
        foreign = torch.optim.lr_scheduler.StepLR(sgd(torch.nn.Linear(1, 1)), 1)
        with pytest.raises(InvalidExperimentException, match="wrap_optimizer"):
            context.wrap_lr_scheduler(foreign, MANUAL)
        with pytest.raises(TypeError, match="StepMode"):
            context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1), "epoch")  # type: ignore[arg-type]

    def test_a_scheduler_without_an_optimizer_is_taken(self, context: pytorch.PyTorchTrialContext) -> None:
        class Chained:
            def step(self) -> None: ...

        chained = Chained()
        assert context.wrap_lr_scheduler(chained, MANUAL) is chained

    def test_scaler(self, context: pytorch.PyTorchTrialContext) -> None:
        scaler = torch.amp.GradScaler("cpu")
        assert context.wrap_scaler(scaler) is scaler
        with pytest.raises(InvalidExperimentException, match="wrap_scaler"):
            context.wrap_scaler(torch.amp.GradScaler("cpu"))
        with pytest.raises(InvalidExperimentException):
            context.experimental.use_amp()

    def test_a_scaler_comes_before_the_models(self, context: pytorch.PyTorchTrialContext) -> None:
        context.wrap_model(torch.nn.Linear(1, 1))
        with pytest.raises(InvalidExperimentException, match="wrap_model"):
            context.wrap_scaler(torch.amp.GradScaler("cpu"))
        with pytest.raises(InvalidExperimentException, match="wrap_model"):
            context.experimental.use_amp()

    def test_use_amp_only_once(self, context: pytorch.PyTorchTrialContext) -> None:
        context.experimental.use_amp()
        with pytest.raises(InvalidExperimentException):
            context.experimental.use_amp()
        with pytest.raises(InvalidExperimentException):
            context.wrap_scaler(torch.amp.GradScaler("cpu"))

    def test_a_disabled_scaler(self, context: pytorch.PyTorchTrialContext) -> None:
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        assert context.wrap_scaler(scaler) is scaler
        model = context.wrap_model(torch.nn.Linear(1, 1))
        optimizer = context.wrap_optimizer(sgd(model))
        context.configure_apex_amp(model, optimizer)  # only an enabled one is a conflict


class TestApex:
    def test_disabled(self, context: pytorch.PyTorchTrialContext) -> None:
        model = context.wrap_model(torch.nn.Linear(1, 1))
        optimizer = context.wrap_optimizer(sgd(model))
        models, optimizers = [model], (optimizer,)
        assert context.configure_apex_amp(models, optimizers, enabled=False) == (models, optimizers)
        context.wrap_model(torch.nn.Linear(1, 1))  # nothing was configured

    def test_nothing_is_wrapped_afterwards_and_nothing_twice(self, context: pytorch.PyTorchTrialContext) -> None:
        model = context.wrap_model(torch.nn.Linear(1, 1))
        optimizer = context.wrap_optimizer(sgd(model))
        context.configure_apex_amp(model, optimizer)
        with pytest.raises(InvalidExperimentException, match="configure_apex_amp"):
            context.configure_apex_amp(model, optimizer)
        with pytest.raises(InvalidExperimentException, match="configure_apex_amp"):
            context.wrap_model(torch.nn.Linear(1, 1))
        with pytest.raises(InvalidExperimentException, match="configure_apex_amp"):
            context.wrap_optimizer(sgd(model))
        with pytest.raises(InvalidExperimentException):
            context.wrap_scaler(torch.amp.GradScaler("cpu"))

    def test_not_with_a_scaler(self, context: pytorch.PyTorchTrialContext) -> None:
        context.wrap_scaler(torch.amp.GradScaler("cpu"))
        model = context.wrap_model(torch.nn.Linear(1, 1))
        with pytest.raises(InvalidExperimentException, match="wrap_scaler"):
            context.configure_apex_amp(model, context.wrap_optimizer(sgd(model)))

    @pytest.mark.parametrize("as_list", [True, False])
    def test_shapes_are_kept_and_nothing_is_lost(self, context: pytorch.PyTorchTrialContext, as_list: bool) -> None:
        first, second = (context.wrap_model(torch.nn.Linear(1, 1)) for _ in range(2))
        optimizer = context.wrap_optimizer(sgd(first))
        given: Any = ([first, second], [optimizer]) if as_list else (first, optimizer)
        models, optimizers = context.configure_apex_amp(
            given[0], given[1], num_losses=2, loss_scale="dynamic", verbosity=0
        )
        assert (models, optimizers) == given
        assert context.models == [first, second]
        assert context.optimizers == [optimizer]

    def test_an_unknown_level(self, context: pytorch.PyTorchTrialContext) -> None:
        model = context.wrap_model(torch.nn.Linear(1, 1))
        with pytest.raises(InvalidExperimentException, match="opt_level"):
            context.configure_apex_amp(model, context.wrap_optimizer(sgd(model)), opt_level="O4")


class TestStepping:
    def test_before_training(self, context: pytorch.PyTorchTrialContext) -> None:
        model = context.wrap_model(torch.nn.Linear(1, 1))
        optimizer = context.wrap_optimizer(sgd(model))
        context.backward(model(torch.ones(1)).sum())  # works
        assert model.weight.grad is not None
        with pytest.raises(InternalException, match="step_optimizer"):
            context.step_optimizer(optimizer)

    def test_an_optimizer_that_was_not_wrapped(self, context: pytorch.PyTorchTrialContext) -> None:
        with pytest.raises(InvalidExperimentException, match="wrap_optimizer"):
            context.step_optimizer(sgd(torch.nn.Linear(1, 1)))

    def test_a_loss_that_is_no_tensor(self, context: pytorch.PyTorchTrialContext) -> None:
        with pytest.raises(TypeError, match="backward"):
            context.backward(1.0)  # type: ignore[arg-type]

    def test_gradients_must_be_cleared_under_aggregation(self) -> None:
        class Keeping(LineTrial):
            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                self.context.step_optimizer(self.optimizer, auto_zero_grads=False)
                return {}

        with pytest.raises(InvalidExperimentException, match="auto_zero_grads"):
            fit(Keeping, max_length=pytorch.Batch(1), options={"aggregation_frequency": 2})

    @pytest.mark.parametrize(
        ("frequency", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)]
    )
    def test_frequencies_that_are_refused(self, frequency: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="aggregation_frequency"):
            with pytorch.init(aggregation_frequency=frequency):
                raise AssertionError("not reached")

    def test_to_device(self, context: pytorch.PyTorchTrialContext, caplog: pytest.LogCaptureFixture) -> None:
        data = {"a": [torch.ones(1)], "b": ("text", 1)}
        assert context.to_device(data)["a"][0].device == context.device
        assert context.to_device(data)["b"][0] == "text"


class TestExperimental:
    def test_foreign_loaders(self, caplog: pytest.LogCaptureFixture) -> None:
        class Foreign(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                with caplog.at_level(logging.INFO):
                    context.experimental.disable_dataset_reproducibility_checks()

            def build_training_data_loader(self) -> Any:
                return torch.utils.data.DataLoader(line(), batch_size=4)

            def build_validation_data_loader(self) -> Any:
                return [line()[:2]]

        trial = fit(Foreign, max_length=pytorch.Epoch(2))
        assert trial.batch_indices == [*range(6)]
        assert trial.epoch_indices == [0, 0, 0, 1, 1, 1]
        assert "the program is responsible for sharding" in caplog.text

    def test_batches_reach_the_trial_unmoved(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Odd:
            def to(self, *args: Any) -> Odd:
                raise AssertionError("moved")

        class Unmoved(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                context.experimental.disable_dataset_reproducibility_checks()
                context.experimental.disable_auto_to_device()
                self.odd = Odd()

            def build_training_data_loader(self) -> Any:
                return [self.odd]

            def build_validation_data_loader(self) -> Any:
                return [self.odd]

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
                assert batch is self.odd
                return {}

            def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
                assert batch is self.odd
                return {}

        fit(Unmoved, max_length=pytorch.Batch(2))

    def test_reducers_under_their_old_names(self, context: pytorch.PyTorchTrialContext) -> None:
        reducer = context.experimental.wrap_reducer(sum, name="total")
        reducer.update(2)
        reducer.update(3)
        assert context.experimental.reduce_metrics(for_training=True) == {"total": 5}
        context.experimental.reset_reducers()
        assert context.reduce_metrics(for_training=False) == {"total": 0}


class TestReducers:
    """The rows of the API; the arithmetic is tested elsewhere."""

    class Constant(pytorch.MetricReducer):
        def __init__(self, value: Any) -> None:
            self.value = value

        def reset(self) -> None: ...

        def per_slot_reduce(self) -> Any:
            return 0

        def cross_slot_reduce(self, per_slot_metrics: Any) -> Any:
            return self.value

    def test_objects_and_functions(self, context: pytorch.PyTorchTrialContext) -> None:
        reducer = self.Constant(1)
        assert context.wrap_reducer(reducer, name="one") is reducer
        assert context.wrap_reducer(len, name="count").update(7) is None
        context.wrap_reducer(len, name="again")
        assert context.reduce_metrics(for_training=True) == {"one": 1, "count": 1, "again": 0}
        with pytest.raises(AssertionError):
            context.wrap_reducer(reducer, name="two")
        with pytest.raises(AssertionError):
            context.wrap_reducer(3)  # type: ignore[arg-type]

    def test_selection(self, context: pytorch.PyTorchTrialContext) -> None:
        assert context.reduce_metrics(for_training=True) == {}
        context.wrap_reducer(self.Constant(1), name="training", for_validation=False)
        context.wrap_reducer(self.Constant({"x": 2, "y": 3}), for_training=False)
        assert context.reduce_metrics(for_training=True) == {"training": 1}
        assert context.reduce_metrics(for_training=False) == {"x": 2, "y": 3}

    @pytest.mark.parametrize(("name", "value"), [("named", {"x": 1}), (None, 1)])
    def test_names_and_dicts(self, context: pytorch.PyTorchTrialContext, name: Any, value: Any) -> None:
        context.wrap_reducer(self.Constant(value), name=name)
        with pytest.raises(AssertionError):
            context.reduce_metrics(for_training=True)

    @pytest.mark.parametrize("phase", ["reset", "per_slot_reduce", "cross_slot_reduce"])
    def test_failures_say_where(self, context: pytorch.PyTorchTrialContext, phase: str) -> None:
        def fail(*_: Any) -> None:
            raise KeyError("inner")

        failing = type("Failing", (self.Constant,), {phase: fail})
        context.wrap_reducer(failing(1), name="the name")
        with pytest.raises(ValueError, match=f"Failing.*{phase}.*the name") as raised:
            context.reset_reducers() if phase == "reset" else context.reduce_metrics(for_training=True)
        assert isinstance(raised.value.__cause__, KeyError)

    def test_tensors_become_arrays(self, context: pytorch.PyTorchTrialContext) -> None:
        context.wrap_reducer(self.Constant(torch.ones((), requires_grad=True) * 2), name="two")
        assert context.reduce_metrics(for_training=True)["two"] == 2
        assert not isinstance(context.reduce_metrics(for_training=True)["two"], torch.Tensor)


class TestFirstGenerationGetters:
    def test_exactly_one(self, context: pytorch.PyTorchTrialContext) -> None:
        model = context.wrap_model(torch.nn.Linear(1, 1))
        optimizer = context.wrap_optimizer(sgd(model))
        assert context.get_model() is model
        assert context.get_optimizer() is optimizer
        assert context.get_lr_scheduler() is None
        context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1), MANUAL)
        assert context.get_lr_scheduler() is context.lr_schedulers[0]

        context.wrap_model(torch.nn.Linear(1, 1))
        context.wrap_optimizer(sgd(model))
        context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1), MANUAL)
        for getter in (context.get_model, context.get_optimizer, context.get_lr_scheduler):
            with pytest.raises(InvalidExperimentException, match=getter.__name__):
                getter()


class TestRandomState:
    def draws(self) -> list[Any]:
        import random

        import numpy as np

        return [random.random(), np.random.rand(), torch.rand(()).item()]

    def test_a_seed_seeds_everything(self) -> None:
        with pytorch.init(seed=4) as context:
            first = self.draws()
            assert context.get_trial_seed() == 4
        with pytorch.init(seed=4):
            assert self.draws() == first
        with pytorch.init(seed=5):
            assert self.draws() != first

    def test_without_a_seed_nothing_is_reseeded_and_torch_decides(self) -> None:
        torch.manual_seed(9)
        plain = self.draws()[2]
        torch.manual_seed(9)
        with pytorch.init() as context:
            first = context.get_trial_seed()
            assert self.draws()[2] == plain
        torch.manual_seed(9)
        with pytorch.init() as context:
            assert context.get_trial_seed() == first
        torch.manual_seed(10)
        with pytorch.init() as context:
            assert context.get_trial_seed() != first

    @pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
    def test_seeds_that_are_refused(self, seed: Any) -> None:
        with pytest.raises(TypeError, match="seed"):
            with pytorch.init(seed=seed):
                raise AssertionError("not reached")

    @pytest.mark.parametrize("name", ["hparams", "exp_conf"])
    def test_arguments_that_are_no_dicts(self, name: str) -> None:
        with pytest.raises(TypeError, match=name):
            with pytorch.init(**{name: [1]}):  # type: ignore[arg-type]
                raise AssertionError("not reached")
