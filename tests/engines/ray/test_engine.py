"""The engine for a cluster against a simulated bridge: how parts of a job become one job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined.engines.base import Exited, Job, Line, WakeupRequested
from determined.engines.command import Shell
from determined.engines.ray import jobs
from determined.engines.ray.bridge_process import BridgeProcess
from determined.engines.ray.engine import NodeData, RayEngine
from determined.errors import EngineError, MissingExtraError
from tests.engines.ray.fake_bridge import CLUSTER, NODES, FakeBridge, collected, settle
from tests.helpers.waiting import alive, wait_until

READY = ["ready"]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeBridge]:
    with FakeBridge(tmp_path) as made:
        yield made


@pytest.fixture
def engine(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> RayEngine:
    """Return an engine with two slots for each job, on two nodes, and a group granted over both."""
    made = fake.engine(monkeypatch, slots_per_job=2)
    made.announce_demand(2)
    assert fake.receive("request") == {"request": [1], "return": [], "exclude": []}
    grant(fake, made, 1)
    return made


def grant(fake: FakeBridge, engine: RayEngine, number: int) -> None:
    """Grant a group over both nodes, and report them as ready."""
    fake.send({"granted": number, "shares": [["a", 1, [], 1], ["b", 1, [], 1]]})
    fake.events_of("a", READY)
    fake.events_of("b", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 2)


def job(key: str = "1.1.1", slots: int = 2) -> Job:
    return Job(key, Shell("true"), {"A": "1"}, Path("1"), slots)


def exited(code: int, signal: str | None = None, *, cpu: float = 1.0, lost: bool = False) -> list[Any]:
    return ["exited", "1.1.1", code, signal, False, cpu, lost]


def test_a_job_gets_a_part_on_each_node_of_its_group(fake: FakeBridge, engine: RayEngine) -> None:
    assert engine.start(job()) == [0, 1]
    message = fake.receive("start")
    assert message["start"]["environment"]["A"] == "1"
    both = {"actor": 1, "addresses": ["10.0.0.1", "10.0.0.2"], "slots": [1, 1], "gpus": []}
    assert message["parts"] == [{"node": "a", "rank": 0, **both}, {"node": "b", "rank": 1, **both}]
    assert engine.where("1.1.1") == ["first", "second"]
    assert engine.free_slots() == 0
    with pytest.raises(EngineError, match="already running"):
        engine.start(job())
    with pytest.raises(EngineError, match="Ray has granted none"):
        engine.start(job("1.1.2"))


def test_it_has_ended_when_all_its_parts_have(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    fake.events_of("b", exited(0, cpu=1.5))
    settle(engine)
    assert engine.free_slots() == 0
    fake.events_of("a", ["line", "1.1.1", 0, "stdout", None, "last words", 7.0], exited(0, cpu=2.0))
    assert collected(engine, 2) == [
        Line("1.1.1", 0, "stdout", None, "last words", 7.0),
        Exited("1.1.1", 0, None, False, 3.5),
    ]
    assert engine.free_slots() == 2
    assert engine.where("1.1.1") == []


def test_after_a_failure_the_other_parts_are_killed(
    fake: FakeBridge, engine: RayEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "SECONDS_BEFORE_KILL", 0.1)
    engine.start(job())
    fake.events_of("b", exited(7))
    heard: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: heard.append(fake.receive("tell")))
    thread.start()
    wait_until(lambda: engine.events(0.05) == [] and heard)
    thread.join()
    assert heard == [{"tell": ["kill", "1.1.1"], "nodes": ["a"]}]
    fake.events_of("a", exited(137, "SIGKILL"))
    assert collected(engine, 1) == [Exited("1.1.1", 7, None, False, 2.0)]


def test_a_lost_node_takes_its_jobs_along(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    fake.send({"lost": "b", "reason": "the power went"})
    settle(engine)
    # The part on the other node waits for ranks that have exited: it is killed at once, and the job ends with it.
    assert "start" in fake.next()
    assert fake.next() == {"tell": ["kill", "1.1.1"], "nodes": ["a"]}
    fake.events_of("a", exited(137, "SIGKILL"))
    (event,) = collected(engine, 1)
    assert isinstance(event, Exited)
    assert (event.lost, event.lost_node) == (True, "second (the power went)")
    # Only when that part has ended, because Ray would give its slot to another program. Ray would keep the group, and
    # move it to another node.
    assert fake.next() == {"request": [], "return": [1], "exclude": []}
    assert engine.free_slots() == 0
    fake.send({**CLUSTER, "cluster": NODES[:1]})
    settle(engine)
    assert engine.slots == 2
    # Later messages of the node are ignored.
    fake.events_of("b", exited(0), ["line", "1.1.1", 0, "stdout", None, "too late", 7.0], READY)
    settle(engine)
    assert engine.slots == 2


def test_a_node_that_ray_no_longer_names_is_lost(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    fake.send({**CLUSTER, "cluster": NODES[:1]})
    settle(engine)
    fake.events_of("a", exited(1))
    (event,) = collected(engine, 1)
    assert isinstance(event, Exited)
    assert event.lost
    assert event.lost_node.startswith("second")


def test_the_nodes_of_a_job_may_all_be_lost(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    fake.send({"lost": "a", "reason": "fire"}, {"lost": "b", "reason": "fire"})
    (event,) = collected(engine, 1)
    assert isinstance(event, Exited)
    assert event.lost
    fake.send({**CLUSTER, "cluster": []})
    settle(engine)
    assert engine.reason_not_to_fit(2) == "a trial wants 2 CPU slots, the Ray cluster has 0 (no nodes)"


def test_a_node_whose_actor_was_killed_is_used_again(fake: FakeBridge, engine: RayEngine) -> None:
    for number in (2, 3, 4, 5):
        fake.send({"lost": "b", "reason": "the actor was killed"})
        settle(engine)
        assert fake.receive("request")["return"] == [number - 1]
        engine.announce_demand(2)
        assert fake.receive("request") == {"request": [number], "return": [], "exclude": []}
        grant(fake, engine, number)


def test_a_node_whose_actor_never_starts_is_refused(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(1)
    fake.receive("request")
    for number in (1, 2, 3):
        fake.send({"granted": number, "shares": [["b", 1, [], 1]]}, {"lost": "b", "reason": "no module determined"})
        settle(engine)
        engine.announce_demand(1)
    assert fake.receive("refused") == {"refused": {"b": "its actor could not be started: no module determined"}}
    assert fake.receive("request")["exclude"] == ["b"]


def test_a_refused_node_is_not_asked_again(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(2)
    fake.receive("request")
    fake.send({"granted": 1, "shares": [["a", 1, [], 1]]}, {"granted": 2, "shares": [["b", 1, [], 1]]})
    fake.events_of("a", ["refused", "torch 1.0 instead of 2.0"])
    fake.events_of("b", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 1)
    assert fake.receive("refused") == {"refused": {"a": "torch 1.0 instead of 2.0"}}
    assert fake.receive("request") == {"request": [], "return": [1], "exclude": []}
    engine.announce_demand(2)
    assert fake.receive("request") == {"request": [3], "return": [], "exclude": ["a"]}
    assert engine.slots == 2
    assert "second: 2" in str(engine.reason_not_to_fit(3))


def test_what_an_experiment_waits_for(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    assert engine.reason_to_wait == ""
    engine.announce_demand(2)
    assert engine.reason_to_wait.startswith("Ray has not granted them")
    fake.send({"granted": 1, "shares": [["a", 1, [], 1]]}, {"granted": 2, "shares": [["b", 1, [], 1]]})
    fake.events_of("a", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 1)
    assert engine.reason_to_wait.startswith("second must get the code and run the startup hook first")
    fake.events_of("b", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 2)
    assert engine.reason_to_wait == ""


def test_a_refused_node_keeps_the_slots_of_a_running_job(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(2)
    fake.send({"granted": 1, "shares": [["a", 1, [], 1]]}, {"granted": 2, "shares": [["a", 1, [], 1]]})
    fake.events_of("a", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 2)
    engine.start(job(slots=1))
    fake.receive("start")
    fake.events_of("a", ["refused", "its hook failed", "    the last line"])
    said = [line.text for line in collected(engine, 2) if isinstance(line, Line)]
    assert said == ["node first of the Ray cluster is not used: its hook failed", "    the last line"]
    assert "(first: its hook failed, second: 2)" in str(engine.reason_not_to_fit(3))
    assert fake.receive("request") == {"request": [], "return": [2], "exclude": []}
    # The running job is one of the two that are requested.
    engine.announce_demand(2)
    assert fake.receive("request") == {"request": [3], "return": [], "exclude": ["a"]}
    fake.events_of("a", exited(0))
    assert collected(engine, 1) == [Exited("1.1.1", 0, None, False, 1.0)]
    assert fake.next() == {"request": [], "return": [1], "exclude": []}
    assert engine.free_slots() == 0


def test_a_group_that_failed_is_requested_elsewhere(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(1)
    for number in (1, 2, 3):
        assert fake.receive("request") == {"request": [number], "return": [], "exclude": []}
        fake.send({"failed group": number}, {"lost": "b", "reason": "determined-pytorch is not installed"})
        settle(engine)
        engine.announce_demand(1)
    assert fake.receive("refused")["refused"].keys() == {"b"}
    assert fake.receive("request") == {"request": [4], "return": [], "exclude": ["b"]}


def test_trials_say_which_nodes_are_not_used(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(1)
    fake.send({"granted": 1, "shares": [["b", 1, [], 1]]})
    fake.events_of("b", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 1)
    engine.start(job(slots=1))
    fake.events_of("a", ["refused", "torch 1.0 instead of 2.0"])
    (line,) = collected(engine, 1)
    assert isinstance(line, Line)
    assert (line.key, line.level) == ("1.1.1", "WARNING")
    assert line.text == "node first of the Ray cluster is not used: torch 1.0 instead of 2.0"
    fake.events_of("b", exited(0))
    assert collected(engine, 1) == [Exited("1.1.1", 0, None, False, 1.0)]
    # A later trial gets the same reason.
    engine.start(job("1.1.2", slots=1))
    (later,) = collected(engine, 1)
    assert isinstance(later, Line)
    assert (later.key, later.text) == ("1.1.2", line.text)


def test_without_any_node_left_the_reasons_are_reported(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    fake.events_of("a", ["refused", "too old"])
    settle(engine)
    fake.events_of("b", ["refused", "no storage"])
    settle(engine)
    assert engine.granter_exited
    assert engine.reason_to_pause == (
        "a trial wants 1 CPU slot, the Ray cluster has 0 (first: too old, second: no storage)"
    )


def test_groups_that_cannot_be_used_are_returned(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(1)
    fake.receive("request")
    engine.announce_demand(0)
    assert fake.receive("request")["return"] == [1]
    # Granted before the return arrived there.
    fake.send({"granted": 1, "shares": [["a", 1, [], 1]]})
    settle(engine)
    assert fake.receive("request")["return"] == [1]
    fake.events_of("a", ["refused", "too old"])
    settle(engine)
    engine.announce_demand(1)
    assert fake.receive("request") == {"request": [2], "return": [], "exclude": ["a"]}
    fake.send({"granted": 2, "shares": [["a", 1, [], 1]]})
    settle(engine)
    assert fake.receive("request")["return"] == [2]
    assert engine.free_slots() == 0


def test_a_taken_port_is_not_the_trials_fault(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    text = "torch.distributed.DistNetworkError: The server socket has failed to listen: EADDRINUSE, port 29400"
    fake.events_of("a", ["line", "1.1.1", 0, "stderr", None, text, 7.0], exited(1))
    fake.events_of("b", exited(1))
    event = collected(engine, 2)[1]
    assert event == Exited("1.1.1", 1, None, False, 2.0, lost=True)


def test_the_message_for_a_taken_port_on_one_node_is_the_trials_own(
    fake: FakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(1)
    fake.send({"granted": 1, "shares": [["a", 1, [], 1]]})
    fake.events_of("a", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 1)
    engine.start(job(slots=1))
    fake.events_of("a", ["line", "1.1.1", 0, "stderr", None, "EADDRINUSE", 7.0], exited(1))
    assert collected(engine, 2)[1] == Exited("1.1.1", 1, None, False, 1.0)


def test_without_a_head_nothing_starts_and_what_runs_may_save(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    fake.send({"withdrawn": "the head of the Ray cluster does not answer"})
    settle(engine)
    assert engine.granter_exited
    assert engine.reason_to_pause == "the head of the Ray cluster does not answer"
    engine.wake("1.1.1")
    assert fake.receive("tell") == {"tell": ["wake", "1.1.1"], "nodes": ["a", "b"]}
    fake.events_of("a", exited(0))
    fake.events_of("b", exited(0))
    assert collected(engine, 1) == [Exited("1.1.1", 0, None, False, 2.0)]
    assert engine.free_slots() == 0
    with pytest.raises(EngineError, match="Ray has granted none"):
        engine.start(job("1.1.2"))


def test_a_killed_bridge_loses_everything_and_says_so(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    fake.kill()
    (event,) = collected(engine, 1)
    assert isinstance(event, Exited)
    assert event.lost
    assert "its process ended with code -9" in engine.reason_to_pause
    assert engine.granter_exited
    assert engine.slots == 0
    assert engine.events(0.01) == []
    engine.kill("1.1.1")
    engine.announce_demand(4)


def test_a_bridge_that_cannot_connect_is_one_line(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match=r"^cannot connect: wrong token$"):
        fake.engine(monkeypatch, first={"failed": "cannot connect: wrong token"})
    wait_until(lambda: not alive([fake.pid]))


def test_lines_and_wishes_of_workers(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    assert not engine.has_listener("1.1.1")
    fake.events_of("b", ["status", "1.1.1", 2.5, False], ["status", "unknown", 1.0, True])
    fake.events_of("a", ["status", "1.1.1", 1.0, False], ["wakeup", "1.1.1"], ["wakeup", "unknown"])
    assert collected(engine, 1) == [WakeupRequested("1.1.1")]
    assert engine.has_listener("1.1.1")
    assert engine.cpu_seconds("1.1.1") == 3.5
    assert engine.cpu_seconds("unknown") == 0


def test_store_calls_are_answered_together_and_to_their_nodes(fake: FakeBridge, engine: RayEngine) -> None:
    asked: list[list[bytes]] = []

    def answer(calls: Any) -> tuple[list[tuple[int, bytes]], list[str]]:
        asked.append([body for _, body in calls])
        return [(number, body.upper()) for number, body in reversed(calls)], []

    engine.serve_store(answer)
    fake.events_of("a", ["store", 5, "one"], ["store", 6, "two"])
    fake.events_of("b", ["store", 5, "three"])
    wait_until(lambda: engine.events(0.05) == [] and sum(map(len, asked)) == 3)
    received: dict[str, list[Any]] = {}
    while sum(map(len, received.values())) < 3:
        for node, answers in fake.receive("answers")["answers"].items():
            received.setdefault(node, []).extend(answers)
    assert sorted(received["a"]) == [["answer", 5, "ONE"], ["answer", 6, "TWO"]]
    assert received["b"] == [["answer", 5, "THREE"]]


def test_a_job_that_has_validated_wakes_the_runner(fake: FakeBridge, engine: RayEngine) -> None:
    engine.start(job())
    engine.serve_store(lambda calls: ([], ["1.1.1", "unknown"]))
    fake.events_of("a", ["store", 5, "one"])
    assert collected(engine, 1) == [WakeupRequested("1.1.1")]


def test_demand_is_announced_and_taken_back(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(3)
    assert fake.receive("request")["request"] == [1, 2, 3]
    assert [engine.wants_more_slots] == [True]
    fake.send({"granted": 2, "shares": [["a", 1, ["7"], 1]]})
    fake.events_of("a", READY)
    wait_until(lambda: engine.events(0.05) == [] and engine.free_slots() == 1)
    engine.start(job(slots=1))
    assert fake.receive("start")["parts"][0]["gpus"] == ["7"]
    engine.announce_demand(1)
    assert fake.receive("request") == {"request": [], "return": [1, 3], "exclude": []}
    assert not engine.wants_more_slots
    fake.send({"granted": 3, "shares": [["b", 1, [], 1]]})  # was in progress
    settle(engine)
    assert engine.free_slots() == 0


def test_a_large_search_requests_few_groups(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    engine.announce_demand(5000)
    assert len(fake.receive("request")["request"]) == 4 + 16  # the cluster has four slots
    assert engine.wants_more_slots
    nodes = [["a", "10.0.0.1", "first", 100], ["b", "10.0.0.2", "second", 100]]
    fake.send({**CLUSTER, "cluster": nodes, "can_grow": True})
    wait_until(lambda: engine.events(0.05) == [] and engine.slots == 200)
    engine.announce_demand(5000)
    assert len(fake.receive("request")["request"]) == 400 - 20
    engine.announce_demand(1)
    assert len(fake.receive("request")["return"]) == 399


def test_nodes_come_and_go(fake: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake.engine(monkeypatch)
    assert engine.slots == 4
    assert engine.reason_not_to_fit(4) is None
    assert engine.reason_not_to_fit(5) == "a trial wants 5 CPU slots, the Ray cluster has 4 (first: 2, second: 2)"
    third = ["c", "10.0.0.3", "third", 8]
    fake.send({**CLUSTER, "cluster": [NODES[0], third]})
    settle(engine)
    assert engine.slots == 10
    fake.send({**CLUSTER, "can_grow": True})
    settle(engine)
    assert engine.reason_not_to_fit(500) is None


def test_the_runner_gets_its_turn_while_messages_arrive_without_end(
    fake: FakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fake.engine(monkeypatch)

    def answer(calls: Any) -> tuple[list[Any], list[str]]:
        fake.events_of("a", ["store", 5, "one"])  # the next one arrives before this one is answered
        if answered:
            fake.receive("answers")  # of the earlier one: the connection must not fill
        answered.append(calls)
        return [], []

    answered: list[Any] = []
    engine.serve_store(answer)
    fake.events_of("a", ["store", 5, "one"])
    wait_until(lambda: engine._bridge.has_message(0.05))
    assert engine.events(0.1) == []
    assert answered
    wait_until(lambda: engine._bridge.has_message(0.05))


def test_a_bridge_that_ends_at_once_is_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    node_data = NodeData("experiment", "tests:Setup", {}, Path("code.tar"))
    program = "import sys; sys.exit('no space left in the object store') # {connection} {parent}"
    with pytest.raises(EngineError, match="ended with code 1: no space left in the object store"):
        RayEngine("head:1", 1, node_data, bridge=lambda: BridgeProcess(program))


def test_when_the_engine_is_closed_its_bridge_ends(fake: FakeBridge, engine: RayEngine) -> None:
    engine.close()
    wait_until(lambda: not alive([fake.pid]))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"determined-pytorch\[ray\]"):
        RayEngine(None, 1, NodeData("experiment", "tests:Setup", {}, Path("code.tar")))
