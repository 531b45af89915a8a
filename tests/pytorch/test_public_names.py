"""Every name of the API and of its documents imports, with the documented parameters and defaults."""

from __future__ import annotations

import enum
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import determined
from determined import core, errors, pytorch
from determined.pytorch import _metric_utils, samplers
from tests.helpers.trials import HPARAMS, LineTrial

REQUIRED = inspect.Parameter.empty

NAMES = [
    # in every generation
    "PyTorchTrial",
    "DataLoader",
    "LRScheduler",
    "Reducer",
    "TorchData",
    "adapt_batch_sampler",
    "data_length",
    "to_device",
    # in some releases only
    "RepeatBatchSampler",
    "DistributedBatchSampler",
    "SkipBatchSampler",
    "reset_parameters",
    "PyTorchTrialController",
    "PyTorchTrialContext",
    "PyTorchCallback",
    "ClipGradsL2Norm",
    "ClipGradsL2Value",
    "MetricReducer",
    "PyTorchExperimentalContext",
    "samplers",
    "load_trial_from_checkpoint_path",
    "Trainer",
    "init",
    "Batch",
    "Epoch",
    "TrainUnit",
    "CheckpointLoadContext",
    "ShouldExit",
    # internals that programs of users use
    "_PyTorchTrialController",
    "_TrainBoundary",
    "_TrainBoundaryType",
    "_TrialState",
    "_ShouldExit",
    "_log_tb_metrics",
    "_simple_reduce_metrics",
    "_PyTorchReducerContext",
    "_SimpleReducer",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_package_has_the_name(name: str) -> None:
    assert getattr(pytorch, name) is not None


def test_the_public_list_is_true() -> None:
    assert [name for name in pytorch.__all__ if not hasattr(pytorch, name)] == []
    documented = {name for name in NAMES if not name.startswith("_")}
    assert documented <= {*pytorch.__all__}


def test_init_is_a_function_even_after_submodules_were_imported() -> None:
    importlib.import_module("determined.pytorch.trainer")
    importlib.import_module("determined.pytorch.checkpoint.load_trial")
    assert inspect.isfunction(pytorch.init)
    assert inspect.ismodule(pytorch.samplers)


@pytest.mark.parametrize(
    "name",
    [
        "_process_combined_metrics_and_batches",
        "_average_training_metrics",
        "_prepare_metrics_reducers",
        "_convert_metrics_to_numpy",
    ],
)
def test_metric_utils(name: str) -> None:
    assert callable(getattr(_metric_utils, name))


@pytest.mark.parametrize(
    "name",
    ["RepeatBatchSampler", "DistributedBatchSampler", "SkipBatchSampler", "adapt_batch_sampler"],
)
def test_samplers_have_a_module_of_their_own(name: str) -> None:
    assert getattr(samplers, name) is getattr(pytorch, name)


def test_names_of_other_rooms_that_the_documents_mention() -> None:
    from determined.tensorboard.metric_writers.pytorch import TorchWriter

    assert inspect.isclass(TorchWriter)
    assert issubclass(pytorch.PyTorchTrialContext, determined.TrialContext)
    assert issubclass(pytorch.PyTorchTrial, determined.LegacyTrial)
    assert inspect.isclass(core.DistributedContext)
    assert issubclass(determined.InvalidHP, Exception)


def parameters(function: Any) -> dict[str, Any]:
    found = inspect.signature(function).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in found
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


TRIAL, CONTEXT, CALLBACK = pytorch.PyTorchTrial, pytorch.PyTorchTrialContext, pytorch.PyTorchCallback

SIGNATURES: list[tuple[Any, dict[str, Any]]] = [
    (TRIAL, {"context": REQUIRED}),
    (TRIAL.train_batch, {"self": REQUIRED, "batch": REQUIRED, "epoch_idx": REQUIRED, "batch_idx": REQUIRED}),
    (TRIAL.evaluate_batch, {"self": REQUIRED, "batch": REQUIRED, "batch_idx": REQUIRED}),
    (TRIAL.evaluate_full_dataset, {"self": REQUIRED, "data_loader": REQUIRED}),
    (TRIAL.evaluation_reducer, {"self": REQUIRED}),
    (TRIAL.build_callbacks, {"self": REQUIRED}),
    (TRIAL.build_training_data_loader, {"self": REQUIRED}),
    (TRIAL.build_validation_data_loader, {"self": REQUIRED}),
    (TRIAL.get_batch_length, {"self": REQUIRED, "batch": REQUIRED}),
    (TRIAL.build_model, {"self": REQUIRED}),
    (TRIAL.optimizer, {"self": REQUIRED, "model": REQUIRED}),
    (TRIAL.create_lr_scheduler, {"self": REQUIRED, "optimizer": REQUIRED}),
    (pytorch.LRScheduler, {"scheduler": REQUIRED, "step_mode": REQUIRED, "frequency": 1}),
    (pytorch.Batch, {"value": REQUIRED}),
    (pytorch.Epoch, {"value": REQUIRED}),
    (pytorch.TrainUnit, {"value": REQUIRED}),
    (pytorch.ShouldExit, {"skip_exit_checkpoint": False}),
    (pytorch.CheckpointLoadContext, {"hparams": None, "exp_conf": None}),
    (pytorch.Trainer, {"trial": REQUIRED, "context": REQUIRED}),
    (pytorch.ClipGradsL2Norm, {"clip_value": REQUIRED}),
    (pytorch.ClipGradsL2Value, {"clip_value": REQUIRED}),
    (pytorch._TrainBoundary, {"step_type": REQUIRED, "unit": REQUIRED}),
    (pytorch.reset_parameters, {"model": REQUIRED}),
    (
        pytorch.load_trial_from_checkpoint_path,
        {"path": REQUIRED, "trial_class": None, "trial_kwargs": None, "torch_load_kwargs": None},
    ),
    (
        CONTEXT.wrap_optimizer,
        {
            "self": REQUIRED,
            "optimizer": REQUIRED,
            "backward_passes_per_step": 1,
            "fp16_compression": None,
            "average_aggregated_gradients": None,
        },
    ),
    (
        CONTEXT.wrap_lr_scheduler,
        {"self": REQUIRED, "lr_scheduler": REQUIRED, "step_mode": REQUIRED, "frequency": 1},
    ),
    (CONTEXT.wrap_scaler, {"self": REQUIRED, "scaler": REQUIRED}),
    (
        CONTEXT.configure_apex_amp,
        {
            "self": REQUIRED,
            "models": REQUIRED,
            "optimizers": REQUIRED,
            "enabled": True,
            "opt_level": "O1",
            "cast_model_type": None,
            "patch_torch_functions": None,
            "keep_batchnorm_fp32": None,
            "master_weights": None,
            "loss_scale": None,
            "cast_model_outputs": None,
            "num_losses": 1,
            "verbosity": 1,
            "min_loss_scale": None,
            "max_loss_scale": 2.0**24,
        },
    ),
    (
        CONTEXT.backward,
        {"self": REQUIRED, "loss": REQUIRED, "gradient": None, "retain_graph": False, "create_graph": False},
    ),
    (
        CONTEXT.step_optimizer,
        {"self": REQUIRED, "optimizer": REQUIRED, "clip_grads": None, "auto_zero_grads": True, "scaler": None},
    ),
    (
        CONTEXT.wrap_reducer,
        {"self": REQUIRED, "reducer": REQUIRED, "name": None, "for_training": True, "for_validation": True},
    ),
    (CONTEXT.reduce_metrics, {"self": REQUIRED, "for_training": REQUIRED}),
    (CONTEXT.to_device, {"self": REQUIRED, "data": REQUIRED}),
    (CONTEXT.get_hparam, {"self": REQUIRED, "name": REQUIRED}),
    (CONTEXT.set_stop_requested, {"self": REQUIRED, "stop_requested": REQUIRED}),
    (CONTEXT.set_enable_tensorboard_logging, {"self": REQUIRED, "enable_tensorboard_logging": REQUIRED}),
    (CONTEXT.autocast_forward_pass, {"self": REQUIRED, "model": REQUIRED}),
    (
        pytorch.Trainer.configure_profiler,
        {"self": REQUIRED, "sync_timings": True, "enabled": False, "begin_on_batch": 0, "end_after_batch": None},
    ),
    (CALLBACK.on_trial_startup, {"self": REQUIRED, "first_batch_idx": REQUIRED, "checkpoint_uuid": REQUIRED}),
    (CALLBACK.on_training_epoch_start, {"self": REQUIRED, "epoch_idx": REQUIRED}),
    (CALLBACK.on_training_epoch_end, {"self": REQUIRED, "epoch_idx": REQUIRED}),
    (CALLBACK.on_training_workload_end, {"self": REQUIRED, "avg_metrics": REQUIRED, "batch_metrics": REQUIRED}),
    (CALLBACK.on_validation_epoch_end, {"self": REQUIRED, "outputs": REQUIRED}),
    (CALLBACK.on_validation_end, {"self": REQUIRED, "metrics": REQUIRED}),
    (CALLBACK.on_checkpoint_load_start, {"self": REQUIRED, "checkpoint": REQUIRED}),
    (CALLBACK.on_checkpoint_save_start, {"self": REQUIRED, "checkpoint": REQUIRED}),
    (CALLBACK.on_checkpoint_end, {"self": REQUIRED, "checkpoint_dir": REQUIRED}),
    (CALLBACK.on_checkpoint_write_end, {"self": REQUIRED, "checkpoint_dir": REQUIRED}),
    (CALLBACK.on_checkpoint_upload_end, {"self": REQUIRED, "uuid": REQUIRED}),
    (CALLBACK.load_state_dict, {"self": REQUIRED, "state_dict": REQUIRED}),
    (pytorch.MetricReducer.cross_slot_reduce, {"self": REQUIRED, "per_slot_metrics": REQUIRED}),
]


@pytest.mark.parametrize(("function", "expected"), SIGNATURES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_signature(function: Any, expected: dict[str, Any]) -> None:
    assert parameters(function) == expected


def test_fit_has_the_documented_parameters_in_order() -> None:
    found = parameters(pytorch.Trainer.fit)
    assert list(found)[:10] == [
        "self",
        "checkpoint_period",
        "validation_period",
        "max_length",
        "reporting_period",
        "checkpoint_policy",
        "latest_checkpoint",
        "step_zero_validation",
        "test_mode",
        "profiling_enabled",
    ]
    assert found["reporting_period"] == pytorch.Batch(100)
    assert found["checkpoint_policy"] == "best"
    assert [found[name] for name in ("checkpoint_period", "validation_period", "max_length")] == [None] * 3
    assert [found[name] for name in ("step_zero_validation", "test_mode", "profiling_enabled")] == [False] * 3


def test_init_takes_keywords_only() -> None:
    found = inspect.signature(pytorch.init).parameters
    documented = ["hparams", "exp_conf", "distributed", "aggregation_frequency", "enable_tensorboard_logging"]
    assert list(found)[:5] == documented
    assert {parameter.kind for parameter in found.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert [found[name].default for name in documented] == [None, None, None, 1, True]
    with pytest.raises(TypeError):
        pytorch.init({})  # type: ignore[call-arg]


def test_wrap_model_takes_a_model_alone() -> None:
    assert next(iter(inspect.signature(CONTEXT.wrap_model).parameters)) == "self"
    assert list(parameters(CONTEXT.wrap_model))[1] == "model"


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (pytorch.Reducer, {"AVG": 1, "SUM": 2, "MAX": 3, "MIN": 4}),
        (
            pytorch.LRScheduler.StepMode,
            {"STEP_EVERY_EPOCH": 1, "STEP_EVERY_BATCH": 2, "MANUAL_STEP": 3, "STEP_EVERY_OPTIMIZER_STEP": 4},
        ),
        (
            pytorch._TrainBoundaryType,
            {"CHECKPOINT": "CHECKPOINT", "REPORT": "REPORT", "VALIDATE": "VALIDATE", "TRAIN": "TRAIN"},
        ),
    ],
)
def test_enumerations(kind: type[enum.Enum], members: dict[str, Any]) -> None:
    assert {member.name: member.value for member in kind} == members


def test_trial_state_starts_at_zero() -> None:
    state = pytorch._TrialState()
    names = ["trial_id", "last_ckpt", "step_id", "last_val", "batches_trained", "epochs_trained"]
    assert [getattr(state, name) for name in names] == [0] * 6
    assert pytorch._TrialState(batches_trained=3).batches_trained == 3


def test_should_exit_is_an_exception_that_keeps_its_argument() -> None:
    assert pytorch._ShouldExit is pytorch.ShouldExit
    assert issubclass(pytorch.ShouldExit, Exception)
    assert pytorch.ShouldExit().skip_exit_checkpoint is False
    assert pytorch.ShouldExit(skip_exit_checkpoint=True).skip_exit_checkpoint is True


def test_train_boundary() -> None:
    boundary = pytorch._TrainBoundary(step_type=pytorch._TrainBoundaryType.TRAIN, unit=pytorch.Batch(1))
    assert boundary.limit_reached is False
    assert (boundary.step_type, boundary.unit) == (pytorch._TrainBoundaryType.TRAIN, pytorch.Batch(1))


def test_abstract_methods_are_those_of_the_current_generation() -> None:
    assert pytorch.PyTorchTrial.__abstractmethods__ == {
        "train_batch",
        "build_training_data_loader",
        "build_validation_data_loader",
    } | (pytorch.PyTorchTrial.__abstractmethods__ & {"__init__"})
    with pytest.raises(TypeError):
        pytorch.PyTorchTrial(pytorch.CheckpointLoadContext())  # type: ignore[abstract]


def test_class_attributes_of_a_trial() -> None:
    assert pytorch.PyTorchTrial.trial_context_class is pytorch.PyTorchTrialContext
    assert pytorch.PyTorchTrial.trial_controller_class is pytorch._PyTorchTrialController


def test_the_constructor_of_the_private_controller_is_the_old_one(data_home: Path) -> None:
    parameters = list(inspect.signature(pytorch._PyTorchTrialController).parameters)
    assert parameters == [
        *("trial_inst", "context", "checkpoint_period", "validation_period", "reporting_period", "smaller_is_better"),
        *("steps_completed", "latest_checkpoint", "local_training", "test_mode", "searcher_metric_name"),
        *("checkpoint_policy", "step_zero_validation", "max_length", "global_batch_size", "profiling_enabled"),
    ]
    with pytorch.init(hparams=HPARAMS) as context:
        trial = LineTrial(context)
        controller = pytorch._PyTorchTrialController(
            trial_inst=trial,
            context=context,
            checkpoint_period=pytorch.Batch(100),
            validation_period=pytorch.Batch(2),
            reporting_period=pytorch.Batch(2),
            smaller_is_better=True,
            steps_completed=0,
            latest_checkpoint=None,
            local_training=True,
            test_mode=False,
            searcher_metric_name="val_loss",
            checkpoint_policy="best",
            step_zero_validation=False,
            max_length=pytorch.Batch(4),
            global_batch_size=2,
            profiling_enabled=False,
        )
        assert isinstance(controller, pytorch.PyTorchTrialController)
        controller.run()
        assert (controller.state.batches_trained, controller.trial_id) == (4, 0)
        assert controller.core_context.info.trial.trial_id == 0
    assert trial.batch_indices == [0, 1, 2, 3]


def test_callback_defaults_do_nothing() -> None:
    callback = pytorch.PyTorchCallback()
    assert callback.state_dict() == {}
    assert callback.load_state_dict({}) is None  # type: ignore[func-returns-value]
    for name in [name for name in vars(pytorch.PyTorchCallback) if name.startswith("on_")]:
        hook = getattr(callback, name)
        assert hook(*[None for _ in inspect.signature(hook).parameters]) is None


@pytest.mark.parametrize(
    "name",
    [
        "InvalidExperimentException",
        "InvalidModelException",
        "InvalidConfigurationException",
        "InvalidDataTypeException",
    ],
)
def test_errors_are_ordinary_exceptions(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, Exception)
    assert issubclass(kind, errors.InvalidExperimentException)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("determined._train_context", "TrialContext"),
        ("determined.core._distributed", "DistributedContext"),
        ("determined.pytorch._pytorch_trial", "PyTorchTrial"),
        ("determined.pytorch._pytorch_trial", "ShouldExit"),
        ("determined.pytorch._pytorch_context", "PyTorchTrialContext"),
        ("determined.pytorch._data", "DataLoader"),
        ("determined.pytorch._callback", "PyTorchCallback"),
        ("determined.pytorch._lr_scheduler", "LRScheduler"),
        ("determined.pytorch._reducer", "Reducer"),
    ],
)
def test_modules_that_the_documents_name_hold_what_they_say(module: str, name: str) -> None:
    assert isinstance(getattr(importlib.import_module(module), name), type)
