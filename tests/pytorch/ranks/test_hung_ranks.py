"""A rank that hangs ends the job in bounded time, and the others print where it hangs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from determined import core, pytorch
from tests.helpers.ranks import start_ranks
from tests.helpers.trials import LineTrial, fit

TIMEOUT = {"DET_COLLECTIVE_TIMEOUT": "4"}


def looking_for_a_needle() -> None:
    time.sleep(60)


def waiting_in_a_collective() -> None:
    context = core.DistributedContext.from_torch_distributed()
    context.allgather("here")
    if context.rank == 1:
        looking_for_a_needle()
    context.allgather("here again")


def waiting_in_training() -> None:
    class Trial(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 3 and self.context.distributed.rank == 1:
                looking_for_a_needle()
            return super().train_batch(batch, epoch_idx, batch_idx)

    fit(Trial, max_length=pytorch.Batch(9), hparams={"global_batch_size": 4})


@pytest.mark.parametrize(
    "program", [pytest.param(waiting_in_a_collective, marks=pytest.mark.thorough), waiting_in_training]
)
def test_the_message_names_the_rank_and_shows_its_stack(program: Any) -> None:
    survivor, _ = start_ranks(program, n=2, env=TIMEOUT).wait(timeout=50, only=[0])
    assert survivor.returncode == 1
    said = survivor.stderr[survivor.stderr.rindex("DistributedError") :]
    assert "rank 1 did not answer within 5 s: process" in said
    assert "is alive, and was here:" in said
    assert "in looking_for_a_needle" in said
