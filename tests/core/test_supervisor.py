"""A run and its records: attempts that belong together, requests, and processes that must not report."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from determined import core
from determined.stop_request import StopRequest
from tests.helpers.records import metrics_of, opened, run_of, runs
from tests.helpers.relay import RelayedStore
from tests.helpers.waiting import wait_until


def new_context() -> core.Context:
    return core.init(tensorboard_mode=core.TensorboardMode.MANUAL)


@pytest.fixture(params=["local", "relayed"], autouse=True)
def worker_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs reach their store directly, or through a relay that executes every call twice."""
    if request.param == "relayed":
        monkeypatch.setattr("determined.core.supervision.supervisor.open_worker_store", RelayedStore)


@pytest.fixture
def context() -> Iterator[core.Context]:
    with new_context() as made:
        yield made


def save(context: core.Context, steps: int) -> str:
    with context.checkpoint.store_path({"steps_completed": steps}) as (_, uuid):
        pass
    return str(uuid)


def test_training_on_from_a_checkpoint_continues_its_trial() -> None:
    with new_context() as first:
        first.train.set_metadata({"who": "me"})
        for step in (1, 2, 3):
            first.train.report_training_metrics(step, {"first": step})
            if step == 2:
                uuid = save(first, step)
    with new_context() as second:
        second.begin_attempt(checkpoint=uuid, steps_completed=2)
        assert second.train.get_metadata() == {"who": "me"}
        assert [row.steps_completed for row in metrics_of(second)] == [1, 2]
        second.train.report_training_metrics(3, {"second": 3})
        kept = [(row.steps_completed, row.metrics, row.attempt) for row in metrics_of(second)]
        assert kept == [(1, {"first": 1}, 1), (2, {"first": 2}, 1), (3, {"second": 3}, 2)]
    (run,) = runs()
    assert (run.attempt.number, run.attempt.start_step, run.attempt.state) == (2, 2, "completed")


def test_a_deleted_checkpoint_is_marked(context: core.Context) -> None:
    first, second = save(context, 1), save(context, 2)
    context.checkpoint.delete(second)
    context._supervisor.flush()
    with opened() as store:
        assert [found.checkpoint_id for found in store.latest_checkpoints()] == [first]
        assert [found.state for found in store.checkpoints(run_of(context).trial_id)] == ["DELETED", "ACTIVE"]


def test_a_trial_whose_process_lives_gets_a_child(context: core.Context) -> None:
    context.begin_attempt()
    uuid = save(context, 2)
    with new_context() as second:
        second.begin_attempt(checkpoint=uuid, steps_completed=2)
        assert run_of(second).parent_id == run_of(context).trial_id
    assert run_of(context).attempt.state == "running"


def test_training_again_in_one_run_is_another_attempt(context: core.Context) -> None:
    context.begin_attempt()
    context.train.report_training_metrics(1, {"a": 1})
    context.begin_attempt()
    run = run_of(context)
    with opened() as store:
        first, second = store.attempts(run.trial_id)
    assert (first.state, second.state) == ("completed", "running")
    assert first.seconds is not None


def test_an_attempt_is_timed_by_the_clock_that_is_never_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_context() as context:
        context.begin_attempt()
        yesterday = time.time() - 86400
        monkeypatch.setattr(time, "time", lambda: yesterday)
    attempt = run_of(context).attempt
    assert attempt.ended == yesterday
    assert attempt.seconds is not None
    assert attempt.seconds >= 0  # by the wall clock it would be almost a day less


@pytest.mark.parametrize(("kind", "reason"), [("pause", "pause"), ("kill", "cancel"), ("stop", "stop")])
def test_a_request_in_the_store_stops_the_run(context: core.Context, kind: StopRequest, reason: str) -> None:
    context.begin_attempt()
    assert not context.preempt.should_preempt()
    with opened() as store:
        store.add_request(run_of(context).trial_id, kind)
    wait_until(context.preempt.pending)
    assert context.preempt.should_preempt()
    assert context.preempt.reason == reason
    assert run_of(context).stop_acknowledged


def test_a_request_to_the_attempt_before_is_no_request_to_this_one() -> None:
    with new_context() as first:
        uuid = save(first, 1)
    with opened() as store:
        store.add_request(run_of(first).trial_id, "pause")  # too late: it has ended
    with new_context() as second:
        second.begin_attempt(checkpoint=uuid, steps_completed=1)
        looks = second._supervisor._writer._looked
        wait_until(lambda: second._supervisor._writer._looked != looks)
        assert not second.preempt.pending()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_may_not_report(context: core.Context) -> None:
    context.train.report_training_metrics(1, {"a": 1})
    child = os.fork()
    if child == 0:
        try:
            context.train.report_training_metrics(2, {"a": 2})
        except Exception as error:  # noqa: BLE001
            os._exit(0 if f"forked from {os.getppid()}" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    context.train.report_training_metrics(3, {"a": 3})
    assert [row.steps_completed for row in metrics_of(context)] == [1, 3]
