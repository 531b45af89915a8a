"""`PlacementGroups`: requests placement groups from Ray, reports when they are granted, and returns them.

All calls to Ray's head are made in one thread: they block while the head does not answer, and meanwhile the bridge must
pass on events of nodes, so that trials can save.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from determined.engines.ray.connecting import first_line
from determined.engines.ray.placement import Share, group_name, shares_of

T = TypeVar("T")

_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.25  # seconds between looks at groups that Ray has not granted
_SECONDS_FOR_HEAD = 60.0  # the time for which Ray tries to reach a lost head before it ends this process
_SECONDS_FOR_HOLDERS = 60.0  # a worker process of Ray starts within seconds


class GpuHolder:
    """An actor that holds the GPU of one slot, because Ray assigns GPUs to actors only and not to groups."""

    def gpus(self) -> list[str]:
        """Return the names of the GPUs that Ray has assigned, as in CUDA_VISIBLE_DEVICES."""
        return [str(name) for name in ray.get_runtime_context().get_accelerator_ids()["GPU"]]


@dataclass(frozen=True)
class _Problem:
    """The reason why the GPUs of a node cannot be used, returned in place of their names."""

    text: str


@dataclass
class _Requested:
    """A group that the runner wants. It has no handle until it was created."""

    exclude: list[str]
    handle: Any = None
    granted: bool = False
    holders: tuple[Any, ...] = ()


class PlacementGroups:
    """The placement groups of one experiment, by the numbers that the runner gives them."""

    def __init__(
        self,
        experiment: str,
        slots: int,
        kind: str,
        *,
        single_node: bool,
        on_granted: Callable[[int, tuple[Share, ...]], Awaitable[None]],
        on_failed: Callable[[int, dict[str, str]], object],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._slots, self._kind, self._single_node = slots, kind, single_node
        # Ray refuses a name that exists, and the groups of a runner that was suspended exist after a takeover.
        self._name = group_name(experiment, secrets.token_hex(4))
        self._on_granted, self._on_failed, self._spawn = on_granted, on_failed, spawn
        self._groups: dict[int, _Requested] = {}
        self._returned: list[_Requested] = []
        self._changed = asyncio.Event()
        self._head = ThreadPoolExecutor(1, thread_name_prefix="head")

    def request(self, number: int, exclude: list[str]) -> None:
        """Request a group on any nodes except those in `exclude`."""
        self._groups[number] = _Requested(exclude)
        self._changed.set()

    def give_back(self, number: int) -> None:
        """Return a group, whether Ray has granted it or not."""
        group = self._groups.pop(number, None)
        if group is not None:
            self._returned.append(group)
            self._changed.set()

    async def serve(self) -> None:
        """Create, watch and return groups for ever."""
        wait = _FIRST_WAIT
        while True:
            waiting = any(not group.granted for group in self._groups.values())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait if waiting else None)
            # New requests are polled often, old ones more and more rarely.
            wait = _FIRST_WAIT if self._changed.is_set() else min(2 * wait, _LONGEST_WAIT)
            self._changed.clear()
            await self._return_all()
            for number, group in list(self._groups.items()):
                if group.handle is None:
                    create = partial(self._create, number, group)
                    group.handle = await self.patiently(partial(self.ask, create))
            await self._look()

    async def close(self, seconds: float) -> None:
        """Return all groups, for up to this time; Ray returns the rest when this process ends."""
        for number in list(self._groups):
            self.give_back(number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._return_all(), seconds)

    async def kill(self, handle: Any) -> None:
        """End an actor, if it has not ended already."""
        with contextlib.suppress(Exception):
            await self.ask(partial(ray.kill, handle))

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call to Ray's head again until it succeeds; raise its error after a minute.

        Trials save while the head does not answer, which the bridge reports (see `_Bridge._watch_nodes`).
        """
        deadline = time.monotonic() + _SECONDS_FOR_HEAD
        while True:
            try:
                return await call()
            # Errors of Ray's C++ part have no common class.
            except Exception:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_LONGEST_WAIT)

    async def ask(self, call: Callable[[], T]) -> T:
        """Make a call to Ray's head, in the thread that may block."""
        return await asyncio.get_running_loop().run_in_executor(self._head, call)

    def _create(self, number: int, group: _Requested) -> Any:
        strategy = "STRICT_PACK" if self._single_node else "PACK"
        # A label of Ray's own: nodes that cannot run this experiment must not be granted again.
        labels = [{"ray.io/node-id": f"!in({','.join(group.exclude)})"}] * self._slots if group.exclude else None
        bundles: list[dict[str, float]] = [{self._kind: 1}] * self._slots
        return placement_group(bundles, strategy=strategy, name=f"{self._name}-{number}", bundle_label_selector=labels)

    async def _return_all(self) -> None:
        """Give groups that are no longer wanted back to Ray, after killing the actors that hold their GPUs."""
        while self._returned:
            group = self._returned.pop()
            for holder in group.holders:
                await self.kill(holder)
            if group.handle is not None:
                # Ray removes the groups of this process at its end in any case.
                with contextlib.suppress(Exception):
                    await self.ask(partial(remove_placement_group, group.handle))

    async def _look(self) -> None:
        """Find out with one call which groups Ray has granted, and begin to use them."""
        waiting = {number: group for number, group in self._groups.items() if not group.granted}
        if not waiting:
            return
        table = await self.patiently(partial(self.ask, placement_group_table))
        for number, group in waiting.items():
            entry = table.get(group.handle.id.hex())
            if entry is None or self._groups.get(number) is not group:
                continue
            if entry["state"] == "CREATED":
                group.granted = True
                # In the background: the processes that hold GPUs take seconds to start, or a minute to fail.
                self._spawn(self._use(number, group, entry["bundles_to_node_id"]))

    async def _use(self, number: int, group: _Requested, nodes: dict[int, str]) -> None:
        """Find the GPUs of a granted group and report it, or return it and report why it cannot be used."""
        names = [""] * len(nodes)
        if self._kind == "GPU":
            group.holders = tuple(_gpu_holder(group.handle, index) for index in range(len(nodes)))
            found = await asyncio.gather(*(_gpus(holder) for holder in group.holders))
            if problems := {nodes[index]: one for index, one in enumerate(found) if isinstance(one, _Problem)}:
                if self._groups.get(number) is group:
                    self.give_back(number)
                    self._on_failed(number, {node: problem.text for node, problem in problems.items()})
                return
            names = [",".join(one) for one in found if isinstance(one, list)]
        if self._groups.get(number) is group:
            await self._on_granted(number, shares_of((nodes[index] for index in sorted(nodes)), names))


async def _gpus(holder: Any) -> list[str] | _Problem:
    """Return the GPUs that an actor holds, or why it does not answer."""
    try:
        return list(await asyncio.wait_for(holder.gpus.remote(), _SECONDS_FOR_HOLDERS))
    except RayError as error:
        return _Problem(first_line(error))
    except TimeoutError:
        return _Problem(f"the process that holds a GPU did not start within {_SECONDS_FOR_HOLDERS:g} s")


def _gpu_holder(group: Any, index: int) -> Any:
    """Create an actor that holds the GPU of one bundle of a group, and return it."""
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
    return ray.remote(GpuHolder).options(num_cpus=0, num_gpus=1, scheduling_strategy=strategy).remote()
