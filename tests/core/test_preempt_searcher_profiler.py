"""Preemption, the searcher's operations, and the profiler."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined import core
from determined.config.length import Length
from determined.core.initialize import open_run
from determined.core.preempt import PreemptContext
from determined.core.profiler import SystemSampler, average
from determined.core.searcher import SearcherContext
from determined.core.supervision.attempts import Member
from determined.core.supervision.build import supervise
from determined.store.process import this_process
from tests.helpers.ranks import run_ranks
from tests.helpers.records import metrics_of, run_of
from tests.helpers.waiting import wait_until


@pytest.fixture
def context() -> Iterator[core.Context]:
    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as opened:
        yield opened


def test_a_standalone_run_has_no_request_to_stop(context: core.Context) -> None:
    assert context.preempt.should_preempt() is False
    assert context.preempt.pending() is False
    assert context.preempt.reason is None


def test_a_request_is_seen_acknowledged_once_and_stays(context: core.Context) -> None:
    context.begin_attempt()
    context.preempt.request("cancel")
    context.preempt.request("pause")  # the first reason is kept
    assert context.preempt.pending() is True
    assert run_of(context).stop_acknowledged is False
    assert context.preempt.should_preempt(auto_ack=False) is True
    assert run_of(context).stop_acknowledged is False
    assert context.preempt.should_preempt() is True
    assert run_of(context).stop_acknowledged is True
    assert context.preempt.reason == "cancel"


def test_it_must_be_started_once(tmp_path: Path) -> None:
    member = Member("key", this_process(), rank=1, size=2)
    preempt = PreemptContext(
        core.DummyDistributedContext(), supervise(tmp_path, member, hparams={}, config={}, storage="")
    )
    with pytest.raises(RuntimeError, match="start"):
        preempt.should_preempt()
    with preempt:
        assert preempt.should_preempt() is False
        with pytest.raises(RuntimeError, match="started"):
            preempt.start()


def ask(mode: str) -> list[Any]:
    ranks = core.DistributedContext.from_torch_distributed()
    with core.init(
        distributed=ranks, preempt_mode=core.PreemptMode[mode], tensorboard_mode=core.TensorboardMode.MANUAL
    ) as context:
        asker = 1 if mode == "WorkersAskMaster" else 0
        if ranks.rank == asker:
            context.preempt.request("stop")
        seen: list[Any] = [context.preempt.pending()]
        if mode == "ChiefOnly" and ranks.rank == 1:
            try:
                context.preempt.should_preempt()
            except RuntimeError as error:
                seen.append(str(error))
        else:
            seen += [context.preempt.should_preempt(), context.preempt.reason]
        seen.append(ranks.broadcast("in step"))
        return seen


@pytest.mark.parametrize(
    ("mode", "chief", "worker"),
    [
        ("WorkersAskChief", [True, True, "stop", "in step"], [False, True, "stop", "in step"]),
        ("ChiefOnly", [True, True, "stop", "in step"], [False, None, "in step"]),
        ("WorkersAskMaster", [False, False, None, "in step"], [True, True, "stop", "in step"]),
    ],
)
def test_modes_between_two_ranks(mode: str, chief: list[Any], worker: list[Any]) -> None:
    first, second = (rank.value for rank in run_ranks(ask, args=[mode]))
    if mode == "ChiefOnly":
        assert "rank 1" in second[1]
        second[1] = None
    assert (first, second) == (chief, worker)


def test_a_standalone_run_has_one_operation_of_one_epoch(context: core.Context) -> None:
    assert context.searcher.get_configured_units() is core.Unit.EPOCHS
    lengths = []
    for operation in context.searcher.operations():
        lengths.append(operation.length)
        operation.report_progress(0.5)
        assert run_of(context).progress == 0.5
        operation.report_completed(0.1)
        operation.report_progress(operation.length)
        with pytest.raises(RuntimeError, match="complete"):
            operation.report_progress(0.5)
        with pytest.raises(RuntimeError, match="twice"):
            operation.report_completed(0.1)
    assert lengths == [1]
    context.searcher.acknowledge_out_of_ops()


def test_an_operation_must_be_completed(context: core.Context) -> None:
    operations = context.searcher.operations()
    next(operations)
    with pytest.raises(RuntimeError, match="report_completed"):
        next(operations)


@pytest.mark.parametrize("bad", [-1, math.inf, math.nan, "1", None])
def test_bad_progress_is_refused(context: core.Context, bad: Any) -> None:
    operation = next(context.searcher.operations())
    with pytest.raises(ValueError, match="length"):
        operation.report_progress(bad)


@pytest.mark.parametrize(
    ("searcher", "length", "unit"),
    [
        ({"max_length": {"batches": 50}}, 50, core.Unit.BATCHES),
        ({"max_length": 7}, 7, None),
        ({"max_time": 16, "time_metric": "epochs"}, 16, core.Unit.EPOCHS),
        ({"max_time": 16, "time_metric": "seconds"}, 16, None),
    ],
)
def test_the_length_comes_from_the_configuration(searcher: dict[str, Any], length: int, unit: core.Unit | None) -> None:
    with open_run(exp_conf={"searcher": searcher}) as context:
        assert next(context.searcher.operations()).length == length
        assert context.searcher.get_configured_units() is unit


def test_workers_may_look_but_not_report(context: core.Context) -> None:
    worker = core.DistributedContext(rank=1, size=2, local_rank=1, local_size=2, cross_rank=0, cross_size=1)
    searcher = SearcherContext(worker, context.train, context.preempt, Length(3, "epochs"))
    (operation,) = searcher.operations()
    with pytest.raises(RuntimeError, match="chief"):
        operation.report_progress(1)
    with pytest.raises(RuntimeError, match="chief"):
        operation.report_completed(1.0)
    with pytest.raises(RuntimeError, match="chief"):
        searcher.operations(core.SearcherMode.ChiefOnly)


def test_the_profiler_reports_averages_of_this_machine(context: core.Context) -> None:
    context.profiler.on(sampling_interval=0.1, samples_per_report=2)
    context.profiler.on(sampling_interval=0.1, samples_per_report=2)
    wait_until(lambda: {"cpu", "memory", "disk", "network"} <= {row.group for row in metrics_of(context)})
    context.profiler.off()
    context.profiler.off()
    rows = {row.group: row for row in metrics_of(context)}
    node = context.info.agent_id
    assert rows["cpu"].steps_completed is None
    assert 0 <= rows["cpu"].metrics[node]["cpu_util_simple"] <= 100
    assert rows["memory"].metrics[node]["memory_free"] > 0
    assert rows["memory"].metrics[node]["memory_process"] > 0
    assert 0 <= rows["disk"].metrics[node]["/"]["disk_util"] <= 100
    assert rows["network"].metrics[node]["net_throughput_sent"] >= 0


@pytest.mark.parametrize("arguments", [(0.05, 10), (math.nan, 10), ("1", 10), (1, 0), (1, 1.5), (1, True)])
def test_bad_profiler_arguments_are_refused(context: core.Context, arguments: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="sampl"):
        context.profiler.on(*arguments)


def test_a_failing_profiler_does_not_end_training(context: core.Context, caplog: pytest.LogCaptureFixture) -> None:
    context.close()  # so that its reports fail
    with caplog.at_level(logging.ERROR):
        context.profiler.on(sampling_interval=0.1, samples_per_report=1)
        thread = context.profiler._thread
        assert thread is not None
        thread.join(20)
    assert "the profiler stopped" in caplog.text


def test_averages() -> None:
    assert average([{"a": 1, "n": {"x": 2}}, {"a": 3, "n": {"x": 4}}]) == {"a": 2, "n": {"x": 3}}


def test_machines_without_disk_counters_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.disk_io_counters", lambda: None)
    assert list(SystemSampler().sample()["disk"]) == ["/"]
