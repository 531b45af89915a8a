"""Which placement groups to request from Ray, to keep and to return. Pure: no Ray, no I/O.

A placement group reserves the slots of one trial. Ray sees each pending group as demand: it serves it when other
programs release resources, and an autoscaler adds nodes for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# Why a group is not granted, by the state that Ray reports.
_WAITING = {
    "NO_RESOURCES": "the slots are in use, by experiments or by other programs of the Ray cluster",
    "INFEASIBLE": "no node, or not all nodes together, have so many slots",
    "FAILED_TO_COMMIT_RESOURCES": "a node has just given its slots to another program",
}


_PENDING_GROUPS = 16  # beyond what the cluster can hold


@dataclass(frozen=True)
class Share:
    """The slots of a group on one node. `gpus` are named as in CUDA_VISIBLE_DEVICES; empty if slots are CPUs."""

    node: str
    slots: int
    gpus: tuple[str, ...] = ()
    actor: int = 0  # the number of the node's actor when the group was granted


@dataclass
class Group:
    """A placement group for one job at a time. It has no shares until Ray has granted it."""

    number: int
    shares: tuple[Share, ...] = ()
    job: str | None = None
    is_dropped: bool = False  # to be returned when its job has ended

    @property
    def is_granted(self) -> bool:
        """Whether Ray has reserved the slots of this group."""
        return bool(self.shares)


@dataclass
class Groups:
    """The placement groups of an experiment. All of them have the same number of slots."""

    slots_each: int
    _groups: dict[int, Group] = field(default_factory=dict)
    _next: int = 1

    def __len__(self) -> int:
        return len(self._groups)

    def plan(self, wanted: int) -> tuple[list[int], list[int]]:
        """Adapt the groups to the number that is wanted; return the numbers of new and of returned groups.

        Groups with a job are never returned. Of the others, those that Ray has not granted are returned first.
        """
        idle = sorted((group for group in self._groups.values() if group.job is None), key=lambda one: one.is_granted)
        surplus = max(0, len(self._groups) - wanted)
        returned = [group.number for group in idle[:surplus]]
        for number in returned:
            del self._groups[number]
        new = []
        while len(self._groups) < wanted:
            new.append(self._next)
            self._groups[self._next] = Group(self._next)
            self._next += 1
        return new, returned

    def grant(self, number: int, shares: Iterable[Share]) -> bool:
        """Record the shares of a group; return False if the group was returned in the meantime."""
        if number not in self._groups:
            return False
        self._groups[number].shares = tuple(shares)
        return True

    def forget(self, number: int) -> None:
        """Forget a group that cannot be used; `plan` requests another one if it is still wanted."""
        self._groups.pop(number, None)

    def free(self, ready: set[str]) -> list[Group]:
        """Return the granted groups without a job whose nodes are all ready."""
        return [
            group
            for group in self._groups.values()
            if group.is_granted and group.job is None and all(share.node in ready for share in group.shares)
        ]

    def nodes_to_wait_for(self, ready: set[str]) -> set[str]:
        """Return the nodes of granted groups that are not ready."""
        return {share.node for group in self._groups.values() for share in group.shares} - ready

    def finish(self, key: str) -> list[int]:
        """Record that a job has ended; return the number of its group if that must be returned now."""
        for group in self._groups.values():
            if group.job == key:
                group.job = None
        return self._remove_dropped()

    def drop_node(self, node: str) -> list[int]:
        """Stop using the groups on a node that was lost or refused; return the numbers of those without a job.

        The others are returned by `finish`. While a part of a job runs, on this node or on another one, Ray must not
        give its slots to another program.
        """
        for group in self._groups.values():
            group.is_dropped |= any(share.node == node for share in group.shares)
        return self._remove_dropped()

    def _remove_dropped(self) -> list[int]:
        """Remove the dropped groups that have no job, and return their numbers."""
        removed = [group.number for group in self._groups.values() if group.is_dropped and group.job is None]
        for number in removed:
            del self._groups[number]
        return removed

    def granted_slots(self) -> int:
        """Return the number of slots that Ray has granted."""
        return self.slots_each * sum(group.is_granted for group in self._groups.values())


def most_groups(slots: int, slots_each: int, *, can_grow: bool) -> int:
    """Return how many groups to request at most on a cluster with this number of slots.

    These are all that it can hold, and some more that wait for slots of others. Each pending group costs Ray's head a
    look and the bridge a row of every table that it reads, so a search with thousands of trials does not request one
    for each. With an autoscaler the pending ones are the demand for which it adds nodes: here for as many again.
    """
    held = slots // slots_each
    return held + max(_PENDING_GROUPS, held if can_grow else 0)


def group_name(experiment: str, runner: str) -> str:
    """Return the first part of the names of groups, by which `ray list placement-groups` shows whose they are."""
    return f"determined-{experiment}-{runner}"


def experiment_of(name: str) -> str:
    """Return the key of the experiment that a group belongs to, from its name: `group_name` and a number."""
    return name.removeprefix("determined-").rsplit("-", 2)[0]


def reason_for_waiting(state: str) -> str:
    """Return in words why Ray has not granted a group, from the state that it reports."""
    return _WAITING.get(state, state)


def node_names(hosts: Sequence[str], addresses: Sequence[str]) -> list[str]:
    """Return a name for each node: its host name, or its address if several nodes are on one host, as in tests."""
    pairs = zip(hosts, addresses, strict=True)
    return [address if not host or hosts.count(host) > 1 else host for host, address in pairs]


def shares_of(nodes: Iterable[str], gpus: Iterable[str]) -> tuple[Share, ...]:
    """Group the slots of a placement group by node. Each slot has a node and a GPU, which is "" if slots are CPUs.

    Nodes with more slots come first, so that most ranks are on the node of the chief.
    """
    slots: dict[str, list[str]] = {}
    for node, gpu in zip(nodes, gpus, strict=True):
        slots.setdefault(node, []).append(gpu)
    ordered = sorted(slots.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(Share(node, len(names), tuple(sorted(name for name in names if name))) for node, names in ordered)
