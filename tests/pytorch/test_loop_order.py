"""The order of everything that happens in a run, including stops, exits and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch

import determined as det
from determined import pytorch
from tests.helpers import records
from tests.helpers.trials import HPARAMS, LineTrial, Recorder, checkpoints, fit, line, metrics, with_callbacks


class Traced(LineTrial):
    """Appends every call of the loop to `log`, in one list with its callback."""

    log: list[Any]

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.log = []
        super().__init__(context)
        self.model.register_forward_hook(lambda *_: self.note("train" if self.model.training else "eval"))
        self.seen = context.wrap_reducer(self.Counting(self.log), name="seen")
        optimizer = self.optimizer
        self.lr = context.wrap_lr_scheduler(
            Stepped(torch.optim.lr_scheduler.ConstantLR(optimizer), self.log),
            pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH,
        )

    class Counting(pytorch.MetricReducer):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def reset(self) -> None:
            self.log.append("reset")

        def per_slot_reduce(self) -> int:
            return 1

        def cross_slot_reduce(self, per_slot_metrics: Any) -> int:
            self.log.append("reduce")
            return len(per_slot_metrics)

    def note(self, what: str) -> None:
        self.log.append(what)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.note(f"batch {batch_idx} of epoch {epoch_idx}")
        assert self.context.current_train_batch() == batch_idx
        assert self.context.current_train_epoch() == epoch_idx
        assert self.context.is_epoch_start() == (batch_idx % 6 == 0)
        assert self.context.is_epoch_end() == (batch_idx % 6 == 5)
        return super().train_batch(batch, epoch_idx, batch_idx)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        assert not torch.is_grad_enabled()
        if batch_idx in (0, 5):
            self.note(f"evaluate {batch_idx}")
        return super().evaluate_batch(batch, batch_idx)

    def evaluation_reducer(self) -> pytorch.Reducer:
        self.note("evaluation_reducer")
        return pytorch.Reducer.AVG

    def build_training_data_loader(self) -> pytorch.DataLoader:
        self.note("build_training_data_loader")
        return super().build_training_data_loader()

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        self.note("build_validation_data_loader")
        return super().build_validation_data_loader()

    def build_callbacks(self) -> dict[str, Any]:
        self.note("build_callbacks")
        return {"noting": Noting(self.log)}


class Stepped:
    """A scheduler without an `optimizer` attribute, such as chained ones of users."""

    def __init__(self, inner: Any, log: list[Any]) -> None:
        self.inner = inner
        self.log = log

    def step(self) -> None:
        self.log.append("scheduler")

    def state_dict(self) -> dict[str, Any]:
        return {}


class Noting(Recorder):
    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log

    def state_dict(self) -> dict[str, Any]:
        self.log.append("state_dict")
        return {}

    def _note(self, hook: str, *arguments: Any) -> None:
        simple = [argument for argument in arguments if isinstance(argument, (int, type(None)))]
        self.log.append(" ".join([hook, *map(str, simple)]))


VALIDATION = [
    "reset",
    "on_validation_start",
    "on_validation_epoch_start",
    "evaluate 0",
    *["eval"] * 5,
    "evaluate 5",
    "eval",
    "on_validation_epoch_end",
    "evaluation_reducer",
    "reduce",
    "on_validation_end",
]
CHECKPOINT = [
    "state_dict",
    "on_checkpoint_save_start",
    "on_checkpoint_write_end",
    "on_checkpoint_upload_end",
]
START = [
    "build_callbacks",
    "on_trial_startup 0 None",
    "build_training_data_loader",
    "build_validation_data_loader",
    "on_training_start",
    "state_dict",  # the check whether it can be saved
]


def batches(first: int, last: int, epoch: int) -> list[str]:
    return [
        entry
        for batch_idx in range(first, last)
        for entry in (f"batch {batch_idx} of epoch {epoch}", "train", "scheduler")
    ]


def test_the_complete_order_of_a_run() -> None:
    trial = fit(
        Traced,
        max_length=pytorch.Batch(8),
        validation_period=pytorch.Batch(4),
        checkpoint_period=pytorch.Batch(4),
        reporting_period=pytorch.Batch(6),
        step_zero_validation=True,
    )
    assert trial.log == [
        *START,
        *VALIDATION,
        "reset",
        "on_training_epoch_start 0",
        *batches(0, 4, 0),
        "reduce",
        "on_training_workload_end",
        *VALIDATION,
        *CHECKPOINT,
        "reset",
        *batches(4, 6, 0),
        "on_training_epoch_end 0",
        "reduce",
        "on_training_workload_end",
        "reset",
        "on_training_epoch_start 1",
        *batches(6, 8, 1),
        "reduce",
        "on_training_workload_end",
        *VALIDATION,
        *CHECKPOINT,
        "on_trial_shutdown",
    ]


def test_validation_and_checkpoint_at_the_end_when_no_period_asks_for_them() -> None:
    trial = fit(Traced, max_length=pytorch.Batch(2))
    assert trial.log == [
        *START,
        "reset",
        "on_training_epoch_start 0",
        *batches(0, 2, 0),
        "reduce",
        "on_training_workload_end",
        *VALIDATION,
        *CHECKPOINT,
        "on_trial_shutdown",
    ]


def test_step_zero_validation_never_saves(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(1), step_zero_validation=True, checkpoint_policy="all")
    assert [row["steps_completed"] for row in metrics(data_home, "validation")] == [0, 1]
    assert len(checkpoints(data_home)) == 1


def test_progress_and_metrics_that_are_reported(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Epoch(1), reporting_period=pytorch.Batch(4))
    reports = metrics(data_home, "training")
    assert [(row["steps_completed"], row["batches"], row["epochs"]) for row in reports] == [(4, 4, 0), (6, 6, 1)]
    (validation,) = metrics(data_home, "validation")
    assert (validation["batches"], validation["epochs"]) == (6, 1)


def test_progress_is_known_before_the_first_reporting_period(data_home: Path) -> None:
    class Failing(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 4:
                raise RuntimeError("interrupted")
            return super().train_batch(batch, epoch_idx, batch_idx)

    with pytest.raises(RuntimeError, match="interrupted"):
        fit(Failing, max_length=pytorch.Batch(12), validation_period=pytorch.Batch(3))
    assert records.runs(data_home)[0].progress == 0.25


def test_counters_of_the_users_own_stay(data_home: Path) -> None:
    class Own(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            return {**super().train_batch(batch, epoch_idx, batch_idx), "batches": 77, "epochs": 0.5}

    recorder = Recorder()
    fit(with_callbacks(recorder, base=Own), max_length=pytorch.Batch(2))
    (row,) = metrics(data_home, "training")
    assert (row["batches"], row["epochs"]) == (77, 0.5)
    (averages, rows) = dict(recorder.calls)["on_training_workload_end"]
    assert averages["batches"] == 77
    assert len(rows) == 2
    assert set(rows[0]) == {"loss", "batches", "epochs"}


class Stopping(LineTrial):
    """Requests a stop in batch `at`, and may withdraw it."""

    at = 1
    back_at: int | None = None

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == self.at:
            self.context.set_stop_requested(True)
        if batch_idx == self.back_at:
            self.context.set_stop_requested(False)
        return super().train_batch(batch, epoch_idx, batch_idx)


def test_a_stop_request_is_seen_at_the_next_boundary(data_home: Path) -> None:
    recorder = Recorder()
    trial = fit(
        with_callbacks(recorder, base=Stopping),
        max_length=pytorch.Batch(20),
        reporting_period=pytorch.Batch(4),
    )
    assert trial.batch_indices == [0, 1, 2, 3]
    assert trial.context.get_stop_requested()
    assert "on_validation_start" not in recorder.names
    assert recorder.names.count("on_checkpoint_upload_end") == 1
    assert recorder.names[-1] == "on_trial_shutdown"
    assert metrics(data_home, "validation") == []


def test_a_stop_request_that_was_taken_back_has_no_effect() -> None:
    trial = fit(
        type("TakenBack", (Stopping,), {"back_at": 2}),
        max_length=pytorch.Batch(6),
        reporting_period=pytorch.Batch(4),
    )
    assert trial.batch_indices == [0, 1, 2, 3, 4, 5]


def test_a_stop_request_at_the_last_boundary_skips_the_final_validation(data_home: Path) -> None:
    fit(type("AtTheEnd", (Stopping,), {"at": 3}), max_length=pytorch.Batch(4), validation_period=pytorch.Batch(4))
    assert metrics(data_home, "validation") == []
    assert len(checkpoints(data_home)) == 1


def test_a_stop_request_in_a_validation_skips_what_is_left_of_the_boundary(data_home: Path) -> None:
    class InValidation(LineTrial):
        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            self.context.set_stop_requested(True)
            return super().evaluate_batch(batch, batch_idx)

    trial = fit(InValidation, max_length=pytorch.Batch(9), validation_period=pytorch.Batch(3))
    assert trial.batch_indices == [0, 1, 2]
    assert len(metrics(data_home, "validation")) == 1
    assert len(checkpoints(data_home)) == 1


@pytest.mark.parametrize(("skip", "saved"), [(False, 1), (True, 0)])
def test_should_exit_leaves_the_loop_from_anywhere(data_home: Path, skip: bool, saved: int) -> None:
    class Leaving(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 3:
                raise pytorch.ShouldExit(skip_exit_checkpoint=skip)
            return super().train_batch(batch, epoch_idx, batch_idx)

    recorder = Recorder()
    trial = fit(with_callbacks(recorder, base=Leaving), max_length=pytorch.Batch(9))
    assert trial.batch_indices == [0, 1, 2]
    assert len(checkpoints(data_home)) == saved
    assert "on_validation_start" not in recorder.names
    assert recorder.names[-1] == "on_trial_shutdown"


def test_invalid_hyperparameters_save_and_end_the_program_well(data_home: Path) -> None:
    class Refusing(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 2:
                raise det.InvalidHP("too bold")
            return super().train_batch(batch, epoch_idx, batch_idx)

    recorder = Recorder()
    with pytest.raises(SystemExit) as leaving:
        fit(with_callbacks(recorder, base=Refusing), max_length=pytorch.Batch(9))
    assert leaving.value.code == 0
    assert isinstance(leaving.value.__cause__, det.InvalidHP)
    assert len(checkpoints(data_home)) == 1
    assert recorder.names[-1] == "on_trial_shutdown"
    (run,) = records.runs(data_home)
    assert run.early_exit == "INVALID_HP"


def test_invalid_hyperparameters_in_the_constructor() -> None:
    class Refusing(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            raise det.InvalidHP("too bold")

    with pytest.raises(SystemExit) as leaving:
        fit(Refusing, max_length=pytorch.Batch(9))
    assert leaving.value.code == 0


class Own(Exception):
    """A callback of the user."""


def test_exceptions_of_the_user_arrive_unchanged(data_home: Path) -> None:
    class Failing(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 2:
                raise Own("as it was")
            return super().train_batch(batch, epoch_idx, batch_idx)

    recorder = Recorder()
    with pytest.raises(Own) as raised:
        fit(with_callbacks(recorder, base=Failing), max_length=pytorch.Batch(9))
    assert raised.type is Own
    assert str(raised.value) == "as it was"
    assert raised.value.__cause__ is None
    assert checkpoints(data_home) == []
    assert recorder.names[-1] == "on_trial_shutdown"


HOOKS = [name for name in vars(pytorch.PyTorchCallback) if name.startswith("on_") and name != "on_checkpoint_end"]


@pytest.mark.parametrize("hook", [name for name in HOOKS if name not in ("on_checkpoint_load_start",)])
def test_exceptions_of_a_hook_arrive_unchanged(hook: str) -> None:
    def fail(self: Any, *args: Any, **kwargs: Any) -> None:
        raise Own(hook)

    def fail_at_epoch(self: Any, epoch_idx: int) -> None:
        raise Own(hook)

    failing: Any = type("Failing", (pytorch.PyTorchCallback,), {hook: fail_at_epoch if "epoch_start" in hook else fail})
    if hook == "on_validation_epoch_start":
        setattr(failing, hook, fail)
    with pytest.raises(Own, match=f"^{hook}$") as raised:
        fit(with_callbacks(failing()), max_length=pytorch.Epoch(1))
    assert raised.type is Own


def test_callbacks_run_in_order_and_shut_down_in_reverse() -> None:
    calls: list[Any] = []
    first, second = Recorder(calls, "1 "), Recorder(calls, "2 ")
    fit(with_callbacks(first, second), max_length=pytorch.Batch(1))
    names = [name for name, _ in calls]
    assert names[:2] == ["1 on_trial_startup", "2 on_trial_startup"]
    assert names[2:4] == ["1 on_training_start", "2 on_training_start"]
    assert names[-2:] == ["2 on_trial_shutdown", "1 on_trial_shutdown"]


def test_only_callbacks_that_started_are_shut_down() -> None:
    class FailsToStart(Recorder):
        def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
            raise Own("not today")

    calls: list[Any] = []
    with pytest.raises(Own):
        fit(
            with_callbacks(Recorder(calls, "1 "), FailsToStart(calls, "2 "), Recorder(calls, "3 ")),
            max_length=pytorch.Batch(1),
        )
    assert [name for name, _ in calls] == ["1 on_trial_startup", "1 on_trial_shutdown"]


def test_the_users_exception_is_not_hidden_by_a_shutdown_hook() -> None:
    class FailsToStop(pytorch.PyTorchCallback):
        def on_training_start(self) -> None:
            raise Own("the first")

        def on_trial_shutdown(self) -> None:
            raise Own("the second")

    with pytest.raises(Own, match="the first"):
        fit(with_callbacks(FailsToStop()), max_length=pytorch.Batch(1))


def test_callbacks_need_not_derive_from_the_base_class() -> None:
    class Plain:
        seen: list[int] = []

        def on_training_epoch_end(self, epoch_idx: int) -> None:
            self.seen.append(epoch_idx)

    plain = Plain()
    fit(with_callbacks(plain), max_length=pytorch.Epoch(2))
    assert plain.seen == [0, 1]


@pytest.mark.parametrize("wrong", [None, [], [Recorder()], {1: Recorder()}, {"a": Recorder}])
def test_what_build_callbacks_may_return(wrong: Any) -> None:
    class Wrong(LineTrial):
        def build_callbacks(self) -> dict[str, Any]:
            return cast(dict[str, Any], wrong)

    with pytest.raises(TypeError, match="build_callbacks"):
        fit(Wrong, max_length=pytorch.Batch(1))


def test_hooks_of_old_releases_are_called() -> None:
    calls: list[Any] = []

    class Old(pytorch.PyTorchCallback):
        def on_train_step_start(self, step_id: int) -> None:
            calls.append(("train start", step_id))

        def on_train_step_end(self, step_id: int, metrics: dict[str, Any]) -> None:
            calls.append(("train end", step_id, sorted(metrics)))

        def on_validation_step_start(self) -> None:
            calls.append("step start")

        def on_validation_start(self) -> None:
            calls.append("start")

        def on_validation_step_end(self, metrics: dict[str, Any]) -> None:
            calls.append(("step end", list(metrics)))

        def on_validation_end(self, metrics: dict[str, Any]) -> None:
            calls.append("end")

        def on_training_epoch_start(self) -> None:  # type: ignore[override]
            calls.append("epoch")

        def on_checkpoint_end(self, checkpoint_dir: str) -> None:
            calls.append(("checkpoint end", sorted(file.name for file in Path(checkpoint_dir).iterdir())))

        def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
            calls.append("write end")

    with pytest.warns(FutureWarning) as warned:
        fit(with_callbacks(Old()), max_length=pytorch.Batch(8), reporting_period=pytorch.Batch(4))
    assert calls == [
        ("train start", 1),
        "epoch",
        ("train end", 1, ["batches", "epochs", "loss"]),
        ("train start", 2),
        "epoch",
        ("train end", 2, ["batches", "epochs", "loss"]),
        "step start",
        "start",
        ("step end", ["val_loss"]),
        "end",
        ("checkpoint end", ["code", "load_data.json", "state_dict.pth", "trial_state.json"]),
        "write end",
    ]
    said = [str(warning.message) for warning in warned]
    for hook in ("on_train_step_start", "on_validation_step_end", "on_checkpoint_end", "on_training_epoch_start"):
        assert len([text for text in said if hook in text]) == 1, said


class TestChecksAtTheStart:
    def test_no_model(self) -> None:
        class NoModel(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                self.context = context

        with pytest.raises(det.errors.InvalidExperimentException, match="wrap_model"):
            fit(NoModel, max_length=pytorch.Batch(1))

    def test_no_optimizer(self) -> None:
        class NoOptimizer(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                self.context = context
                context.wrap_model(self.make_model())

        with pytest.raises(det.errors.InvalidExperimentException, match="wrap_optimizer"):
            fit(NoOptimizer, max_length=pytorch.Batch(1))

    @pytest.mark.parametrize("both", [True, False])
    def test_exactly_one_way_to_evaluate(self, both: bool) -> None:
        methods: dict[str, Any] = {"evaluate_full_dataset": lambda self, data_loader: {"x": 1}} if both else {}
        if not both:
            methods["evaluate_batch"] = pytorch.PyTorchTrial.evaluate_batch
        with pytest.raises(
            det.errors.InvalidExperimentException, match=r"evaluate_batch.*evaluate_full_dataset"
        ) as raised:
            fit(type("Trial", (LineTrial,), methods), max_length=pytorch.Batch(1))
        assert ("both" if both else "neither") in str(raised.value)

    def test_no_trial(self) -> None:
        with pytorch.init(hparams=HPARAMS) as context:
            with pytest.raises(TypeError, match="PyTorchTrial"):
                pytorch.Trainer(object(), context)  # type: ignore[arg-type]

    def test_loaders_of_torch_need_the_opt_out(self) -> None:
        class Foreign(LineTrial):
            def build_training_data_loader(self) -> Any:
                return torch.utils.data.DataLoader(line(), batch_size=2)

        with pytest.raises(RuntimeError, match=r"build_training_data_loader.*disable_dataset_reproducibility_checks"):
            fit(Foreign, max_length=pytorch.Batch(1))

    def test_build_callbacks_comes_once_and_before_the_loaders(self) -> None:
        trial = fit(Traced, max_length=pytorch.Batch(1))
        assert trial.log.count("build_callbacks") == 1
        assert trial.log[0] == "build_callbacks"

    def test_a_class_named_like_the_base_class(self) -> None:
        trial = fit(type("PyTorchTrial", (LineTrial,), {}), max_length=pytorch.Batch(1))
        assert trial.batch_indices == [0]


class TestHowMethodsAreCalled:
    @pytest.mark.parametrize("style", ["keywords", "other_order", "positional_only", "renamed_first", "any"])
    def test_train_batch(self, style: str) -> None:
        seen: list[Any] = []

        def keywords(self: Any, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            seen.append((len(batch), epoch_idx, batch_idx))
            return {}

        def other_order(self: Any, batch: Any, batch_idx: int, epoch_idx: int) -> Any:
            return keywords(self, batch, epoch_idx, batch_idx)

        def positional_only(self: Any, batch: Any, epoch: int, number: int, /) -> Any:
            return keywords(self, batch, epoch, number)

        def renamed_first(self: Any, data: Any, epoch_idx: int, batch_idx: int) -> Any:
            return keywords(self, data, epoch_idx, batch_idx)

        def any_(self: Any, *args: Any, **kwargs: Any) -> Any:
            return keywords(self, *args, **kwargs)

        method = {"any": any_}.get(style, locals().get(style))
        fit(type("Trial", (LineTrial,), {"train_batch": method}), max_length=pytorch.Batch(8))
        assert seen == [(2, index // 6, index) for index in range(8)]

    def test_renaming_an_index_is_a_type_error_that_says_so(self) -> None:
        def train_batch(self: Any, batch: Any, epoch_idx: int, number: int) -> Any:
            return {}

        with pytest.raises(TypeError, match=r"train_batch.*batch_idx"):
            fit(type("Trial", (LineTrial,), {"train_batch": train_batch}), max_length=pytorch.Batch(1))

    @pytest.mark.parametrize("style", ["batch_idx", "without", "third_position", "keywords", "keyword_only"])
    def test_evaluate_batch(self, style: str) -> None:
        seen: list[Any] = []

        def batch_idx_(self: Any, batch: Any, batch_idx: int) -> Any:
            seen.append(batch_idx)
            return {"x": 1.0}

        def without(self: Any, batch: Any) -> Any:
            seen.append(None)
            return {"x": 1.0}

        def third_position(self: Any, batch: Any, number: int) -> Any:
            return batch_idx_(self, batch, number)

        def keywords(self: Any, batch: Any, **others: Any) -> Any:
            return batch_idx_(self, batch, **others)

        def keyword_only(self: Any, batch: Any, *, batch_idx: int) -> Any:
            return batch_idx_(self, batch, batch_idx)

        methods = {
            "batch_idx": batch_idx_,
            "without": without,
            "third_position": third_position,
            "keywords": keywords,
            "keyword_only": keyword_only,
        }
        fit(type("Trial", (LineTrial,), {"evaluate_batch": methods[style]}), max_length=pytorch.Batch(1))
        assert seen == ([None] * 6 if style == "without" else [*range(6)])

    @pytest.mark.parametrize("wrong", [None, 1.5, (1, 2), "loss"])
    def test_train_batch_returns_a_dict_or_a_tensor(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="train_batch"):
            fit(type("Trial", (LineTrial,), {"train_batch": lambda *_: wrong}), max_length=pytorch.Batch(1))

    def test_a_tensor_is_the_loss(self, data_home: Path) -> None:
        fit(type("Trial", (LineTrial,), {"train_batch": lambda *_: torch.tensor(3.5)}), max_length=pytorch.Batch(2))
        assert metrics(data_home, "training")[0]["loss"] == 3.5

    def test_no_metrics_at_all(self, data_home: Path) -> None:
        fit(type("Trial", (LineTrial,), {"train_batch": lambda *_: {}}), max_length=pytorch.Batch(2))
        assert metrics(data_home, "training") == [{"steps_completed": 2, "batches": 2, "epochs": 0}]
