"""`TrainContext`: what is accepted, what is rejected, and what is stored."""

from __future__ import annotations

import datetime
import enum
import logging
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from determined import core
from determined.config.secrets.masking import MASK
from determined.core.initialize import open_run
from tests.helpers.records import metrics_of, run_of


@pytest.fixture
def context() -> Iterator[core.Context]:
    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as opened:
        yield opened


def last(context: core.Context) -> dict[str, Any]:
    return metrics_of(context)[-1].metrics


def test_reports_are_kept(context: core.Context) -> None:
    context.train.report_training_metrics(1, {"loss": 0.1 + 0.2}, batch_metrics=[{"loss": 1}, {"loss": 2}])
    context.train.report_validation_metrics(1, {"accuracy": 1})
    context.train.report_metrics("inference", 2, {"x": "text"})
    kept = [(row.group, row.steps_completed, row.metrics) for row in metrics_of(context)]
    assert kept == [
        ("training", 1, {"loss": 0.30000000000000004, "batch_metrics": [{"loss": 1}, {"loss": 2}]}),
        ("validation", 1, {"accuracy": 1}),
        ("inference", 2, {"x": "text"}),
    ]
    assert all(row.reported > 0 for row in metrics_of(context))


def test_numbers_of_all_kinds_are_taken(context: core.Context) -> None:
    class Colour(enum.Enum):
        RED = 1

    class Hooked:
        def __json__(self) -> dict[str, int]:
            return {"hooked": 1}

    context.train.report_training_metrics(
        1,
        {
            "nan": math.nan,
            "inf": -math.inf,
            "np": np.float32(0.5),
            "np64": np.float64(0.1),
            "array": np.arange(3),
            "tensor": torch.tensor(2.5, requires_grad=True),
            "matrix": torch.ones(1, 2, dtype=torch.bfloat16),
            "flag": np.bool_(True),
            "none": None,
            "nested": {"deep": (1, [2])},
            "enum": Colour.RED,
            "uuid": uuid.UUID(int=0),
            "day": datetime.date(2024, 1, 2),
            "bytes": b"text",
            "hook": Hooked(),
            "": 1,
        },
    )
    kept = last(context)
    assert math.isnan(kept.pop("nan"))
    assert kept == {
        "inf": -math.inf,
        "np": 0.5,
        "np64": 0.1,
        "array": [0, 1, 2],
        "tensor": 2.5,
        "matrix": [[1.0, 1.0]],
        "flag": True,
        "none": None,
        "nested": {"deep": [1, [2]]},
        "enum": "RED",
        "uuid": "00000000-0000-0000-0000-000000000000",
        "day": "2024-01-02",
        "bytes": "text",
        "hook": {"hooked": 1},
        "": 1,
    }


def test_many_metrics_and_long_names_are_taken(context: core.Context) -> None:
    metrics = {f"{i}-" + "n" * 5000: float(i) for i in range(1000)}
    context.train.report_validation_metrics(1, metrics)
    assert last(context) == metrics


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("", 1, {}), ValueError, "group"),
        (("a.b", 1, {}), ValueError, "group.*'a.b'"),
        ((None, 1, {}), ValueError, "group"),
        (("g", "1", {}), TypeError, "steps_completed.*'1'"),
        (("g", 1.0, {}), TypeError, "steps_completed"),
        (("g", True, {}), TypeError, "steps_completed"),
        (("g", -1, {}), ValueError, "steps_completed.*-1"),
        (("g", 2**63, {}), ValueError, "steps_completed.*9223372036854775808"),
        (("g", 1, [("a", 1)]), TypeError, "metrics"),
        (("g", 1, None), TypeError, "metrics"),
        (("g", 1, {3: 1}), TypeError, "name of a metric.*3"),
        (("g", 1, {"bad": object()}), TypeError, "'bad'.*object"),
        (("g", 1, {"bad": {"deep": {1, 2}}}), TypeError, "'bad'.*'deep'.*set"),
        (("g", 1, {"bad": 1j}), TypeError, "'bad'"),
        (("g", 1, {"bad": LOOP}), ValueError, "'bad'.*deeper"),
        (("g", 1, {"epochs": "three"}), ValueError, "'epochs'"),
        (("validation", 1, {"bad": None}), RuntimeError, "'bad'"),
    ],
)
def test_bad_reports_are_refused_by_name(
    context: core.Context, arguments: tuple[Any, Any, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        context.train.report_metrics(*arguments)
    assert metrics_of(context) == []


def test_the_same_step_twice(context: core.Context) -> None:
    report = context.train.report_metrics
    report("g", 1, {"a": 1.0, "n": math.nan})
    report("g", 1, {"a": 1.0, "n": math.nan, "b": 2})
    report("g", 2, {"a": 5.0})
    report("other", 1, {"a": 9.0})
    for step, name in ((1, "a"), (1, "n"), (1, "b"), (2, "a")):
        with pytest.raises(ValueError, match=f"'{name}'.*already reported.*{step}"):
            report("g", step, {name: 7.0})
    report("g", 1, {"c": 3})
    kept = [(row.group, row.steps_completed, row.metrics) for row in metrics_of(context)]
    assert repr(sorted(kept, key=repr)) == repr(
        [("g", 1, {"a": 1.0, "n": math.nan, "b": 2, "c": 3}), ("g", 2, {"a": 5.0}), ("other", 1, {"a": 9.0})]
    )


def test_a_new_attempt_may_report_its_steps_again(context: core.Context) -> None:
    for attempt, value in enumerate((1.0, 2.0), start=1):
        for step in (1, 2):
            context.train.report_training_metrics(step, {"loss": value})
        with pytest.raises(ValueError, match="already reported"):
            context.train.report_training_metrics(1, {"loss": 7.0})
        kept = [(row.steps_completed, row.metrics["loss"], row.attempt) for row in metrics_of(context)]
        assert kept == [(1, value, attempt), (2, value, attempt)]
        context.begin_attempt()
    assert metrics_of(context) == []  # the new attempt began before these steps


@pytest.mark.parametrize("bad", [-0.1, 1.1, 7.0, math.nan, "0.5", None, True])
def test_progress_is_between_0_and_1(context: core.Context, bad: Any) -> None:
    with pytest.raises(ValueError, match="progress"):
        context.train.report_progress(bad)
    context.train.report_progress(1)


def test_metadata_is_replaced(context: core.Context) -> None:
    assert context.train.get_metadata() == {}
    assert context.train.set_metadata({"a": np.int64(1)}) == {"a": 1}
    context.train.set_metadata({"b": [1]})
    assert context.train.get_metadata() == {"b": [1]}
    with pytest.raises(TypeError, match="metadata"):
        context.train.set_metadata([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="metadata"):
        context.train.set_metadata({"a": object()})


def test_status_and_early_exit(context: core.Context) -> None:
    context.train.set_status("validating")
    context.train.report_early_exit(core.EarlyExitReason.USER_REQUESTED_STOP)
    run = run_of(context)
    assert (run.phase, run.early_exit) == ("validating", "USER_REQUESTED_STOP")
    with pytest.raises(TypeError, match="status"):
        context.train.set_status(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="reason"):
        context.train.report_early_exit("INVALID_HP")  # type: ignore[arg-type]


def test_secrets_in_a_status_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "password-of-the-database")
    config = {"checkpoint_storage": {"secret_key": "key-of-the-storage"}}
    with open_run(tensorboard_mode=core.TensorboardMode.MANUAL, exp_conf=config) as context:
        context.train.report_progress(0.5)
        context.train.set_status("reading http://me:hunter2@host with password-of-the-database, key-of-the-storage")
        assert run_of(context).phase == f"reading http://me:{MASK}@host with {MASK}, {MASK}"


def test_a_standalone_run_has_no_best_validation(context: core.Context) -> None:
    context.train.report_validation_metrics(1, {"loss": 0.1})
    assert context.train.get_experiment_best_validation() is None


def test_reports_are_logged_in_full_only_when_info_is_on(
    context: core.Context, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        context.train.report_training_metrics(1, {"loss": 123.25})
    assert "123.25" not in caplog.text
    with caplog.at_level(logging.INFO):
        context.train.report_training_metrics(2, {"loss": 123.25})
        context.train.report_validation_metrics(2, {"val": torch.tensor(0.1, dtype=torch.float64)})
    assert "{'loss': 123.25}" in caplog.text
    assert "{'val': 0.1}" in caplog.text


def test_the_tensorboard_directory_is_always_there(context: core.Context) -> None:
    assert context.train.get_tensorboard_path() == context.run_dir / "tensorboard"
    assert context.train.get_tensorboard_path().is_dir()


def test_files_are_uploaded_by_a_call_in_manual_mode_only(context: core.Context) -> None:
    path = context.train.get_tensorboard_path()
    (path / "trace.json").write_text("trace")
    (path / "other").write_text("other")
    context.train.upload_tensorboard_files(
        selector=lambda file: file.suffix == ".json", mangler=lambda file, rank: file.with_name(f"{file.name}#{rank}")
    )
    assert sorted(file.name for file in path.iterdir()) == ["other", "trace.json", "trace.json#0"]
    with pytest.raises(ValueError, match="mangler"):
        context.train.upload_tensorboard_files(mangler=lambda file, rank: Path("..") / ".." / file)
    with core.init() as auto, pytest.raises(RuntimeError, match="MANUAL"):
        auto.train.upload_tensorboard_files()


def test_scalars_are_written_by_themselves_in_auto_mode() -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with core.init() as context:
        context.train.report_training_metrics(
            5, {"loss": 0.5, "text": "no", "flag": True, "list": [1], "huge": 10**400}
        )
        context.train.report_validation_metrics(5, {"loss": 0.25, "val_acc": 1, "validation_f1": math.nan})
        context.train.report_metrics("custom", 6, {"x": 3})
        path = context.train.get_tensorboard_path()
    events = EventAccumulator(str(path))
    events.Reload()
    found = {
        tag: (events.Tensors(tag) if tag in events.Tags()["tensors"] else events.Scalars(tag))
        for tag in [*events.Tags()["tensors"], *events.Tags()["scalars"]]
    }
    assert sorted(found) == [
        "Determined/loss",
        "Determined/val_acc",
        "Determined/val_loss",
        "Determined/validation_f1",
        "custom/x",
    ]
    assert [event.step for event in found["Determined/loss"]] == [5]
    assert [event.step for event in found["custom/x"]] == [6]


def test_numbers_of_unusual_size_are_kept_or_refused_by_name(context: core.Context) -> None:
    context.train.report_validation_metrics(1, {"wide": np.longdouble("0.5"), "large": 10**4000})
    with pytest.raises(ValueError, match="the metric 'endless' is an integer of more than 4300 digits"):
        context.train.report_validation_metrics(1, {"endless": 10**5000})
    with pytest.raises(TypeError, match="the metric 'd' is a Decimal"):
        context.train.report_validation_metrics(1, {"d": Decimal("0.5")})
    for operation in context.searcher.operations():
        operation.report_progress(10**400)
        operation.report_completed(10**400)
    assert last(context) == {"wide": 0.5, "large": 10**4000}
