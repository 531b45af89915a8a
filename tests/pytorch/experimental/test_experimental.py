"""Batch inference: every record once, for any ranks and interruptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from determined.pytorch.experimental import (
    TorchBatchProcessor,
    TorchBatchProcessorContext,
    initialize_default_inference_context,
    torch_batch_process,
)
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import checkpoints, line, metrics

SEEN: list[Any] = []


class Collecting(TorchBatchProcessor):
    """Records what it is given, and sums it up by a reducer."""

    def __init__(self, context: TorchBatchProcessorContext) -> None:
        self.context = context
        self.model = context.prepare_model_for_inference(torch.nn.Linear(1, 1))
        self.total = context.wrap_reducer(sum, name="total")

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        assert not self.model.training
        assert torch.is_grad_enabled(), "whether gradients are recorded is the processor's own choice"
        records = [round(value * 12) for value in self.context.to_device(batch)[0].flatten().tolist()]
        SEEN.append([batch_idx, records])
        self.total.update(sum(records))

    def on_checkpoint_start(self) -> None:
        SEEN.append("checkpoint")

    def on_finish(self) -> None:
        SEEN.append("finish")


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def records_seen() -> list[int]:
    return sorted(record for entry in SEEN if not isinstance(entry, str) for record in entry[1])


def test_every_batch_once_and_progress_saved_on_the_way(data_home: Path) -> None:
    torch_batch_process(Collecting, line(), batch_size=2, checkpoint_interval=4)
    first, rest = SEEN[:5], SEEN[5:]
    assert [entry[0] for entry in first[:4]] == [0, 1, 2, 3]
    assert first[4] == "checkpoint"
    assert [entry[0] for entry in rest[:2]] == [4, 5]
    assert rest[2:] == ["checkpoint", "finish"]
    assert records_seen() == [*range(1, 13)]
    assert metrics(data_home, "validation") == [{"steps_completed": 6, "total": 78}]
    assert len(checkpoints(data_home)) == 2


def test_it_continues_after_an_interruption(data_home: Path) -> None:
    class Interrupted(Collecting):
        def process_batch(self, batch: Any, batch_idx: int) -> None:
            if batch_idx == 4:
                raise KeyboardInterrupt
            super().process_batch(batch, batch_idx)

    with pytest.raises(KeyboardInterrupt):
        torch_batch_process(Interrupted, line(), batch_size=2, checkpoint_interval=2)
    assert records_seen() == [*range(1, 9)]
    torch_batch_process(
        Collecting, line(), batch_size=2, checkpoint_interval=2, latest_checkpoint=checkpoints(data_home)[-1].name
    )
    assert [entry[0] for entry in SEEN if not isinstance(entry, str)] == [0, 1, 2, 3, 4, 5]
    assert records_seen() == [*range(1, 13)]


def test_max_batches_and_default_size() -> None:
    torch_batch_process(Collecting, line(), max_batches=3)
    assert records_seen() == [1, 2, 3]


@pytest.mark.parametrize(
    "arguments",
    [
        {"checkpoint_interval": 0},
        {"checkpoint_interval": "5"},
        {"max_batches": 2.5},
        {"dataset": iter([1, 2])},
        {"max_batches": 0},
        {"dataloader_kwargs": {"shuffle": True}},
        {"dataloader_kwargs": {"sampler": [1, 2]}},
        {"dataloader_kwargs": {"batch_sampler": [[1, 2]]}},
        {"dataloader_kwargs": {"batch_size": 3}, "batch_size": 3},
        {"batch_size": 0},
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        torch_batch_process(Collecting, **{"dataset": line(), **arguments})
    assert SEEN == []


def test_an_iterable_data_set_is_refused() -> None:
    class Endless(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Any:
            raise AssertionError("it was read")

    with pytest.raises(ValueError, match="Endless"):
        torch_batch_process(Collecting, Endless())


def test_the_inference_context_is_a_separate_run() -> None:
    with initialize_default_inference_context() as core_context:
        assert core_context.distributed.size == 1
        assert core_context.run_dir.is_dir()


def process_on_ranks() -> Any:
    torch_batch_process(Collecting, line(10), batch_size=2, checkpoint_interval=2)
    return SEEN


def test_two_ranks_share_the_batches(data_home: Path) -> None:
    first, second = (rank.value for rank in run_ranks(process_on_ranks, n=2, timeout=60))
    batches = [[entry[0] for entry in seen if not isinstance(entry, str)] for seen in (first, second)]
    assert batches == [[0, 1, 2], [0, 1]]  # five batches: the second rank has one less, and still meets the first
    assert first[-1] == second[-1] == "finish"
    done = [json.loads((one / "batch_process.json").read_text()) for one in checkpoints(data_home)]
    assert done[-1] == {"batches_per_rank": 3, "records": 10, "ranks": 2}
    (row,) = metrics(data_home, "validation")
    assert row["steps_completed"] == 3


class Reporting(TorchBatchProcessor):
    """Every rank reports what it has processed."""

    def __init__(self, context: TorchBatchProcessorContext) -> None:
        self.context = context
        self.done = 0

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        self.done += 1
        self.context.report_metrics("mine", self.done, {f"of rank {self.context.distributed.rank}": batch_idx})


def report_on_ranks() -> None:
    torch_batch_process(Reporting, line(4), batch_size=1)


def test_every_rank_may_report(data_home: Path) -> None:
    run_ranks(report_on_ranks, n=2, timeout=60)
    assert sorted(metrics(data_home, "mine"), key=repr) == [
        {"steps_completed": step, f"of rank {rank}": step - 1} for step in (1, 2) for rank in (0, 1)
    ]
