"""What the bridge does while Ray fails for a short time. Ray is replaced here, because it fails only by chance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorUnavailableError, RayTaskError

from determined.engines.base import Exited, Line
from determined.engines.ray.bridge import groups
from determined.engines.ray.bridge.actors import NodeActors
from determined.engines.ray.bridge.groups import PlacementGroups
from determined.engines.ray.bridge.program import _Bridge
from determined.engines.ray.encoding import decode_event
from determined.engines.ray.placement import Share


@dataclass
class Failing:
    """Fails with these errors, one after the other, and then returns the result."""

    errors: list[Exception]
    result: Any

    def __call__(self, *_: object, **__: object) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return self.result

    async def remote(self) -> Any:
        return self()


@dataclass
class Said:
    """The runner, as the bridge sees it."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


def test_groups_are_requested_again_when_the_head_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [RuntimeError("Failed to connect to GCS."), ConnectionError("head")]
    handle = SimpleNamespace(id=SimpleNamespace(hex=lambda: "abc"))
    table = {"abc": {"state": "CREATED", "bundles_to_node_id": {0: "node"}}}
    monkeypatch.setattr(groups, "placement_group", Failing([*lost], handle))
    monkeypatch.setattr(groups, "placement_group_table", Failing([*lost], table))
    assert asyncio.run(asyncio.wait_for(granted(), 60)) == (1, (Share("node", 1),))


async def granted() -> tuple[int, tuple[Share, ...]]:
    """The first group that is granted."""
    found: asyncio.Future[tuple[int, tuple[Share, ...]]] = asyncio.get_running_loop().create_future()
    tasks: list[asyncio.Task[None]] = []

    async def note(number: int, shares: tuple[Share, ...]) -> None:
        found.set_result((number, shares))

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.get_running_loop().create_task(work))

    made = PlacementGroups("key", 1, "CPU", single_node=False, on_granted=note, on_failed=lambda *_: None, spawn=spawn)
    made.request(1, [])
    spawn(made.serve())
    try:
        # An error of a task would end the bridge.
        while not found.done() and not any(task.done() and task.exception() for task in tasks):
            await asyncio.sleep(0.01)
        return found.result()
    finally:
        for task in tasks:
            task.cancel()
        made._head.shutdown()


def actors(runner: Said, port: Failing) -> NodeActors:
    """The actors of two nodes; the first one answers like that."""
    settings = {"silence_seconds": 60.0}
    made = NodeActors(runner, settings, b"", spawn=lambda work: work.close(), kill=never)  # type: ignore[arg-type]
    for node, number in (("first", 1), ("second", 2)):
        handle = SimpleNamespace(free_port=port)
        made._actors[node] = SimpleNamespace(number=number, handle=handle, add=lambda command: None)  # type: ignore[assignment]
    return made


async def never(handle: Any) -> None:
    raise AssertionError


def test_a_port_is_asked_for_again_until_the_actor_answers() -> None:
    unavailable: Callable[[], Exception] = lambda: ActorUnavailableError("not reachable", None)  # noqa: E731
    made = actors(Said(), Failing([unavailable(), unavailable()], 7000))
    assert asyncio.run(made.free_port("first", 1)) == 7000
    assert asyncio.run(made.free_port("first", 99)) is None  # an actor that was lost
    assert asyncio.run(made.free_port("unknown", 1)) is None


def test_a_job_without_a_port_is_lost_on_all_its_nodes() -> None:
    bridge, runner = object.__new__(_Bridge), Said()
    bridge._runner = runner  # type: ignore[assignment]
    failed = RayTaskError("free_port", "OSError: no address", OSError("no address"))
    bridge._actors = actors(runner, Failing([failed], 0))
    bridge._delayed = {"1.1.1": []}
    parts = [{"node": "first", "actor": 1}, {"node": "second", "actor": 2}]
    asyncio.run(bridge._start_at_a_port({"key": "1.1.1"}, parts))
    said = {message["events"]: [decode_event(one) for one in message["list"]] for message in runner.messages}
    line, first = said["first"]
    assert isinstance(line, Line)
    assert "no free port" in line.text
    assert first == Exited("1.1.1", 1, None, False, 0.0, lost=True)
    assert said["second"] == [Exited("1.1.1", 137, None, False, 0.0, lost=True)]
    assert bridge._delayed == {}
