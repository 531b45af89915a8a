"""The thread that sends to a service: in order, bounded, with retries, and never waited for longer than documented."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Sequence

import pytest

from determined.sinks import event_queue as backlog_module
from determined.sinks import sender as sender_module
from determined.sinks.base import Begin, CheckpointReference, End, Known, Report
from determined.sinks.sender import Sender, close_all
from determined.store.states import EndState

BEGIN = Begin("key", "name", "experiment", 1, 2, "", (), {}, {}, "/nowhere")


def report(step: int, group: str = "training") -> Report:
    return Report(group, step, json.dumps({"loss": step / 2}), 1.0)


def put_all(sender: Sender, *events: Begin | Report | CheckpointReference | End) -> None:
    for event in events:
        sender.put(event)


class Service:
    """Stores what it receives; `behave` is called before each call, and may raise or wait."""

    name = "service"
    Settings = object

    def __init__(self, behave: Callable[[str], None] = lambda call: None, known: Known | None = None) -> None:
        self._behave = behave
        self._known = known or {}
        self.calls: list[str] = []
        self.events: list[Report | CheckpointReference] = []

    def open(self, begin: Begin) -> Known:
        self._call("open")
        return self._known

    def send(self, events: Sequence[Report | CheckpointReference]) -> None:
        self._call("send")
        self.events += events

    def end(self, state: EndState) -> None:
        self._call(f"end {state}")

    def abandon(self) -> None:
        self.calls.append("abandon")

    def _call(self, name: str) -> None:
        self._behave(name)
        self.calls.append(name)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(backlog_module, "_SECONDS_TOGETHER", 0.01)
    monkeypatch.setattr(sender_module, "_SECONDS_TO_NOTICE", 0.0)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "determined.sinks"]


def test_everything_arrives_in_order(caplog: pytest.LogCaptureFixture) -> None:
    service = Service()
    sender = Sender(service)
    events: list[Report | CheckpointReference] = [
        report(1),
        report(1, "validation"),
        CheckpointReference("u", 1, "/data"),
        report(2),
    ]
    put_all(sender, BEGIN, *events, End("completed"))
    close_all([sender], 10)
    assert service.events == events
    assert (service.calls[0], service.calls[-1]) == ("open", "end completed")
    assert not lines(caplog)


def test_steps_that_the_service_has_are_not_sent_again() -> None:
    service = Service(known={"training": 2})
    sender = Sender(service)
    put_all(sender, BEGIN, report(1), report(2), report(2, "validation"), report(3), CheckpointReference("u", 2, "/d"))
    close_all([sender], 10)
    assert service.events == [report(2, "validation"), report(3), CheckpointReference("u", 2, "/d")]


def test_after_a_call_that_failed_only_what_may_have_arrived_is_left_out() -> None:
    """Several reports of one step, and late ones, are sent, also when the service has newer steps by then."""
    sent, fail, back = threading.Event(), [False], threading.Event()

    def behave(call: str) -> None:
        if call == "send" and fail[0]:
            fail[0] = False
            service._known = {"training": 11}  # the call failed after step 11 had arrived
            raise ConnectionError("refused")
        if call == "send":
            (back if sent.is_set() else sent).set()

    service = Service(behave)
    sender = Sender(service)
    sender.put(BEGIN)
    sender.put(report(10))
    assert sent.wait(10)
    fail[0] = True
    for event in (again := [report(10), report(5), report(11), report(12)]):
        sender.put(event)
    assert back.wait(10)
    sender.put(report(11))
    close_all([sender], 10)
    assert service.events == [report(10), *again[:2], report(12), report(11)]


def test_a_flood_is_sent_as_fast_as_the_service_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the thread waited for more reports, the time limit would end the test."""
    monkeypatch.setattr(backlog_module, "_SECONDS_TOGETHER", 1000.0)
    taken = threading.Semaphore(0)
    service = Service(lambda call: taken.release())
    sender = Sender(service)
    sender.put(BEGIN)
    for step in range(2000):
        sender.put(report(step))
    for _ in range(5):  # the first, and four calls with 500 reports each
        assert taken.acquire(timeout=60)
    close_all([sender], 10)
    assert [event.steps_completed for event in service.events] == list(range(2000))


def test_large_reports_take_the_place_of_many_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_module, "MOST_BYTES", 1000)
    waiting = backlog_module.Backlog()
    for step in range(50):
        waiting.put(Report("training", step, "x" * 10, 1.0))
    assert waiting.put(Report("training", 50, "x" * 800, 1.0))
    assert waiting.unsent() == 51
    assert waiting._bytes <= 1000


def test_a_failure_is_logged_once_and_retried_until_it_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    failures = iter(range(4))
    back = threading.Event()

    def behave(call: str) -> None:
        if next(failures, None) is not None:
            raise ConnectionError("refused by https://me:hush@host/")
        if call == "send":
            back.set()

    service = Service(behave)
    sender = Sender(service)
    sender.put(BEGIN)
    sender.put(report(1))
    assert back.wait(10)
    close_all([sender], 10)
    assert service.events == [report(1)]
    first, second = lines(caplog)
    assert first.startswith("service: upload failed (ConnectionError: refused by https://me:********@host/")
    assert second == "service: available again"


def test_a_service_that_is_away_costs_one_more_try_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    def behave(call: str) -> None:
        raise ConnectionError("refused")

    sender = Sender(Service(behave))
    put_all(sender, BEGIN, *map(report, range(7)), End("completed"))
    close_all([sender], 600)  # if the seconds were used up, the time-out of the test would end it
    assert (
        lines(caplog)[-1]
        == "7 reports were not sent to service: ConnectionError: refused (all reports are in the store)"
    )


def test_one_that_hangs_is_left_at_the_deadline_and_delays_no_other(caplog: pytest.LogCaptureFixture) -> None:
    forever = threading.Event()

    def behave(call: str) -> None:
        forever.wait()

    stuck, quick = Service(behave), Service()
    senders = [Sender(stuck), Sender(quick)]
    for sender in senders:
        sender.put(BEGIN)
        sender.put(report(1))
    close_all(senders, 0.3)
    assert lines(caplog) == [
        "1 report was not sent to service: it did not answer in time (all reports are in the store)"
    ]
    assert quick.events == [report(1)]
    assert stuck.calls == ["abandon"]
    forever.set()


def test_when_too_many_wait_the_oldest_reports_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backlog_module, "MOST_EVENTS", 5)
    busy, opened = threading.Event(), threading.Event()

    def behave(call: str) -> None:
        opened.set()
        busy.wait()

    service = Service(behave)
    sender = Sender(service)
    sender.put(BEGIN)
    assert opened.wait(10)
    reference = CheckpointReference("u", 0, "/data")
    sender.put(reference)
    for step in range(10):
        sender.put(report(step))
    busy.set()
    close_all([sender], 10)
    assert service.events == [reference, *map(report, range(6, 10))]
    assert [line for line in lines(caplog) if "too slow or unavailable" in line] == lines(caplog)[:1]
    assert lines(caplog)[-1] == "6 reports were not sent to service: it was too slow (all reports are in the store)"


def test_large_reports_are_bounded_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_module, "MOST_BYTES", 50)
    busy, opened = threading.Event(), threading.Event()

    def behave(call: str) -> None:
        opened.set()
        busy.wait()

    service = Service(behave)
    sender = Sender(service)
    sender.put(BEGIN)
    assert opened.wait(10)
    for step in range(10):
        sender.put(Report("training", step, "x" * 20, 1.0))
    busy.set()
    close_all([sender], 10)
    assert [event.steps_completed for event in service.events] == [8, 9]


def test_a_forked_child_sends_nothing() -> None:
    service = Service()
    sender = Sender(service)
    sender.put(BEGIN)
    child = os.fork()
    if child == 0:
        sender.put(report(1))
        close_all([sender], 0.0)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    close_all([sender], 10)
    assert service.events == []


def test_one_that_is_refused_for_good_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Choosy(Service):
        def send(self, events: Sequence[Report | CheckpointReference]) -> None:
            if any(event.steps_completed == 3 for event in events):
                raise ValueError("not this one")
            super().send(events)

    service = Choosy()
    sender = Sender(service)
    put_all(sender, BEGIN, *map(report, range(6)))
    close_all([sender], 10)
    assert service.events == [report(step) for step in range(6) if step != 3]
    assert lines(caplog) == [
        "service: upload failed (ValueError: not this one). Retrying; training continues.",
        "service: rejected 1 report; it was dropped: ValueError: not this one",
        "1 report was not sent to service: ValueError: not this one (all reports are in the store)",
    ]


def test_numbers_are_sent_and_nothing_else() -> None:
    body = {"loss": 1, "ok": True, "text": "x", "per class": {"a/b": 2.5, "none": None}, "batch_metrics": [{"loss": 1}]}
    values = Report("validation", 3, json.dumps(body), 1.0).values()
    assert values == {"validation/loss": 1.0, "validation/ok": 1.0, "validation/per class/a/b": 2.5}


@pytest.fixture(autouse=True)
def capture_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="determined.sinks")
