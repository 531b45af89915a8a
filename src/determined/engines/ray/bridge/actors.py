"""`NodeActors`: the actors of an experiment, one on each node, and the commands and events that pass through them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnschedulableError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from determined.engines.ray.bridge.runner_connection import RunnerConnection
from determined.engines.ray.connecting import first_line
from determined.engines.ray.node.actor import NodeActor

_SECONDS_BETWEEN_TRIES = 0.5
# How long to wait for the runner's answers to events, which take milliseconds. Further events wait as long.
_SECONDS_FOR_ANSWERS = 0.01
# The limit for the first answer of an actor: its process has to start and import modules, maybe on a busy node.
_SECONDS_TO_START = 60.0
# Otherwise Ray kills the warm process when the actor ends, before it has killed what its jobs left behind.
_VARIABLES = {"RAY_kill_child_processes_on_worker_exit": "false"}


class _Actor:
    """A `NodeActor` with its number, and the commands that were not sent to it yet."""

    def __init__(self, number: int, handle: Any) -> None:
        self.number = number
        self.handle = handle
        self.answered = time.monotonic()
        self.has_answered = False
        self.has_commands = asyncio.Event()
        # Cleared while new commands should be sent with the next call for events, and not in a separate call.
        self.may_tell = asyncio.Event()
        self.may_tell.set()
        self._commands: list[tuple[int, list[Any]]] = []
        self._last_number = 0

    def add(self, command: list[Any]) -> None:
        """Number a command and queue it; commands that are queued until the next call are sent together."""
        self._last_number += 1
        self._commands.append((self._last_number, command))
        self.has_commands.set()

    def take(self) -> list[tuple[int, list[Any]]]:
        """Return the queued commands, for one call. If that fails they are repeated: a number is executed once."""
        commands, self._commands = self._commands, []
        self.has_commands.clear()
        return commands

    async def take_answers(self) -> list[tuple[int, list[Any]]]:
        """Wait shortly for the runner's answers to the events that were just passed on; return them as commands.

        They are sent with the next call for events: without the wait each answer would need a separate call.
        """
        self.may_tell.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_FOR_ANSWERS):
                    await self.has_commands.wait()
            return self.take()
        finally:
            self.may_tell.set()


class NodeActors:
    """The actors of one experiment, by Ray's ids of their nodes."""

    def __init__(
        self,
        runner: RunnerConnection,
        settings: dict[str, Any],
        code: Any,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        kill: Callable[[Any], Coroutine[Any, Any, None]],
    ) -> None:
        self._runner, self._settings, self._code = runner, settings, code
        self._spawn, self._kill = spawn, kill
        self._silence = float(settings["silence_seconds"])
        self._actors: dict[str, _Actor] = {}
        self._numbers = itertools.count(1)

    def __contains__(self, node: object) -> bool:
        return node in self._actors

    def open(self, node: str, described: Mapping[str, Any]) -> int:
        """Create the actor of a node, if there is none, and return its number.

        It gets the name, the address and the slots of its node.
        """
        if node in self._actors:
            return self._actors[node].number
        names = ("experiment", "setup", "data", "silence_seconds", "store_is_server")
        settings = {name: self._settings[name] for name in names} | {"node": node, **described}
        # Threads: one waits in `exchange` while the others accept commands.
        remote = ray.remote(NodeActor).options(
            num_cpus=0,
            max_concurrency=3,
            max_restarts=0,
            runtime_env={"env_vars": _VARIABLES},
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        actor = self._actors[node] = _Actor(next(self._numbers), remote.remote(settings, self._code))
        self._spawn(self._fetch_events(node, actor))
        self._spawn(self._send_commands(node, actor))
        return actor.number

    def start(self, node: str, number: int, job: dict[str, Any], part: dict[str, Any]) -> None:
        """Start a part of a job on a node, unless the actor with this number was lost.

        The runner was told so, and counts the job as lost when it has read the message.
        """
        if node in self._actors and self._actors[node].number == number:
            self._actors[node].add(["start", job, part])

    def tell(self, node: str, command: list[Any]) -> None:
        """Queue a command for a node, unless it was lost."""
        if node in self._actors:
            self._actors[node].add(command)

    async def free_port(self, node: str, number: int) -> int | None:
        """Return a free port of a node, or None if it has none, or if the actor with this number was lost.

        The loss itself is reported when events are fetched.
        """
        while node in self._actors and self._actors[node].number == number:
            try:
                return int(await asyncio.wait_for(self._actors[node].handle.free_port.remote(), self._silence))
            except RayTaskError:
                return None
            # Not reachable now. It counts as lost if that lasts.
            except (RayError, TimeoutError):
                await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
        return None

    def lose(self, node: str, reason: str) -> None:
        """Report a node as lost, and end its actor in case it still runs."""
        actor = self._actors.pop(node, None)
        if actor is None:
            return
        actor.has_commands.set()
        self._spawn(self._kill(actor.handle))
        self._runner.send({"lost": node, "reason": reason})

    async def close(self, seconds: float) -> None:
        """Let all nodes delete what they have created, for up to this time, and end their actors."""
        actors, self._actors = list(self._actors.values()), {}
        if actors:
            # Not waited for any longer: Ray ends the actors together with this process in any case.
            finishing = [asyncio.get_running_loop().create_task(_finish(actor.handle)) for actor in actors]
            await asyncio.wait(finishing, timeout=seconds)
        for actor in actors:
            self._spawn(self._kill(actor.handle))

    async def _fetch_events(self, node: str, actor: _Actor) -> None:
        """Pass on the events of a node until it is lost."""
        seen = 0
        commands: list[tuple[int, list[Any]]] = []
        while self._actors.get(node) is actor:
            limit = self._silence if actor.has_answered else max(self._silence, _SECONDS_TO_START)
            try:
                if self._runner.is_full:
                    # The node must know that it is still wanted, although its events are not fetched.
                    await asyncio.wait_for(actor.handle.tell.remote(commands), limit)
                    actor.answered, commands = time.monotonic(), []
                    await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
                    continue
                # Long-polled: the node answers as soon as there is an event, or after some seconds.
                events = await asyncio.wait_for(actor.handle.exchange.remote(commands, seen), limit)
            except (ActorDiedError, ActorUnschedulableError, RayTaskError) as error:
                self.lose(node, first_line(error))
                return
            except (RayError, TimeoutError) as error:
                # Not reachable now; it counts as lost if that lasts.
                if time.monotonic() - actor.answered > limit:
                    self.lose(node, f"no answer for {limit:g} s: {first_line(error)}")
                    return
                await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
                continue
            actor.answered, actor.has_answered, commands = time.monotonic(), True, []
            if events:
                seen = events[-1][0]
                self._runner.send({"events": node, "list": [event for _, event in events]})
                commands = await actor.take_answers()

    async def _send_commands(self, node: str, actor: _Actor) -> None:
        """Send commands to a node in batches while a call for events waits; repeat each batch until it has arrived."""
        while self._actors.get(node) is actor:
            await actor.has_commands.wait()
            await actor.may_tell.wait()
            commands = actor.take()
            # Until the node has answered or is lost.
            while commands and self._actors.get(node) is actor:
                try:
                    await asyncio.wait_for(actor.handle.tell.remote(commands), self._silence)
                    break
                except (RayError, TimeoutError):
                    await asyncio.sleep(_SECONDS_BETWEEN_TRIES)


async def _finish(handle: Any) -> None:
    """Wait until the actor of a node has cleaned up, or is lost."""
    with contextlib.suppress(RayError):
        await handle.finish.remote()
