"""Runs that evaluate checkpoints, and how their metrics are found from a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from determined import core
from determined.errors import StoreError
from determined.experimental import Checkpoint, client
from tests.helpers.records import opened


@pytest.fixture
def trained(home: Path) -> Checkpoint:
    with core.init() as context:
        context.train.report_validation_metrics(3, {"error": 0.5})
        with context.checkpoint.store_path({"steps_completed": 3}) as (path, uuid):
            (path / "weights").write_text("3")
    return client.get_checkpoint(uuid)


def test_the_metrics_of_evaluations(trained: Checkpoint) -> None:
    version = client.create_model("net").register_version(trained.uuid)
    assert list(trained.get_metrics()) == list(version.iter_metrics()) == []
    with core.init() as context:
        context.experimental.report_task_using_checkpoint(trained)
        context.experimental.report_task_using_checkpoint(trained.uuid)  # a repetition changes nothing
        context.train.report_metrics("inference", 1, {"accuracy": 0.25})
    with core.init() as context:
        context.train.report_metrics("other", 1, {"accuracy": 0.5})
        context.experimental.report_task_using_model_version(version)
        context.train.report_metrics("inference", 1, {"accuracy": 0.75})

    assert [row.metrics["accuracy"] for row in trained.get_metrics("inference")] == [0.25, 0.75]
    assert [(row.group, row.metrics["accuracy"]) for row in version.iter_metrics()] == [
        ("inference", 0.75),
        ("other", 0.5),
    ]
    evaluation = client.get_trial(next(iter(version.iter_metrics())).trial_id).get_experiment()
    evaluation.delete()
    assert [row.metrics["accuracy"] for row in trained.get_metrics()] == [0.25]
    assert list(version.iter_metrics("inference")) == []
    version.delete()
    client.get_experiment(trained.training.experiment_id).delete()
    with opened() as store, pytest.raises(StoreError, match=r"Checkpoint .* not found"):
        store.lineage.users_of_checkpoint(trained.uuid)
    assert len(client.list_experiments()) == 1, "the other evaluation stays"


def test_a_batch_process_says_what_it_uses(trained: Checkpoint) -> None:
    from determined.pytorch.experimental import TorchBatchProcessorContext

    version = client.create_model("net").register_version(trained.uuid)
    with core.init() as context:
        processor = TorchBatchProcessorContext(context)
        processor.report_task_using_checkpoint(trained)
        processor.report_metrics("inference", 1, {"accuracy": 0.25})
        assert list(version.iter_metrics()) == []
        processor.report_task_using_model_version(version)
    assert [row.metrics for row in version.iter_metrics()] == [{"accuracy": 0.25}]


def test_what_is_no_checkpoint_is_refused(trained: Checkpoint) -> None:
    with core.init() as context:
        with pytest.raises(TypeError, match="checkpoint must be a Checkpoint or the id of one, got 3"):
            context.experimental.report_task_using_checkpoint(3)
        with pytest.raises(TypeError, match="model_version must be a ModelVersion, got 'net'"):
            context.experimental.report_task_using_model_version("net")
        with pytest.raises(StoreError, match="Checkpoint elsewhere not found"):
            context.experimental.report_task_using_checkpoint("elsewhere")
        context.train.report_metrics("inference", 1, {"accuracy": 0.25})  # and the run continues
    assert list(trained.get_metrics()) == []
