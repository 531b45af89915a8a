"""The nodes of a cluster for one experiment: which are ready, which are refused and why. Pure: no Ray, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from determined.sentences import counted

_MOST_FAILED_STARTS = 3  # of the actor of a node, or of jobs on it, one after another


@dataclass
class Node:
    """A node of the cluster."""

    address: str
    name: str
    slots: int
    ready: bool = False
    refused: str = ""
    failed_starts: int = 0  # consecutive ones of its actor
    failed_jobs: int = 0  # consecutive jobs that could not be started


@dataclass
class Nodes:
    """The nodes that Ray knows now, by Ray's ids of them."""

    single_node: bool = False  # whether all slots of a job must be on one node
    kind: str = "CPU"
    can_grow: bool = False  # whether an autoscaler adds nodes for demand that cannot be served now
    _nodes: dict[str, Node] = field(default_factory=dict)

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._nodes))

    @property
    def slots(self) -> int:
        """The slots of all nodes that are not refused."""
        return sum(node.slots for node in self._nodes.values() if not node.refused)

    def update(self, described: Sequence[Sequence[Any]]) -> set[str]:
        """Record all nodes (id, address, name, slots) that Ray knows now; return those that have left."""
        for number, address, name, slots in described:
            known = self._nodes.get(number, Node(address, name, slots))
            self._nodes[number] = replace(known, address=address, name=name, slots=slots)
        return set(self._nodes) - {number for number, *_ in described}

    def remove(self, node: str) -> None:
        """Forget a node that has left."""
        self._nodes.pop(node, None)

    def name(self, node: str) -> str:
        """Return the name of a node, or a part of its id if it has left."""
        return self._nodes[node].name if node in self._nodes else node[:12]

    def address(self, node: str) -> str:
        """Return the address of a node."""
        return self._nodes[node].address

    def ready(self) -> set[str]:
        """Return the nodes on which jobs can be started."""
        return {number for number, node in self._nodes.items() if node.ready}

    def refused(self) -> dict[str, str]:
        """Return the nodes that are not used, and why."""
        return {number: node.refused for number, node in self._nodes.items() if node.refused}

    def is_usable(self, node: str) -> bool:
        """Return whether a node exists and is not refused."""
        return node in self._nodes and not self._nodes[node].refused

    def note_ready(self, node: str) -> None:
        """Record that the actor of a node accepts jobs."""
        if node in self._nodes:
            self._nodes[node].ready = True

    def refuse(self, node: str, reason: str) -> None:
        """Mark a node as refused, with the reason."""
        self._nodes[node].refused = reason

    def count_lost_actor(self, node: str, reason: str) -> str:
        """Record that the actor of a node was lost; return why the node must be refused, or "" if it is used again."""
        known = self._nodes.get(node)
        if known is None:
            return ""
        known.failed_starts = 0 if known.ready else known.failed_starts + 1
        known.ready = False
        return f"its actor could not be started: {reason}" if known.failed_starts >= _MOST_FAILED_STARTS else ""

    def count_job(self, node: str, *, failed_to_start: bool) -> str:
        """Record how the start of a job went; return why the node must be refused, or "" if it is used again.

        A node on which several jobs in a row could not be started may have a full disk.
        """
        known = self._nodes.get(node)
        if known is None:
            return ""
        known.failed_jobs = known.failed_jobs + 1 if failed_to_start else 0
        is_bad = known.failed_jobs >= _MOST_FAILED_STARTS and not known.refused
        return "jobs could not be started there, see their logs" if is_bad else ""

    def reason_not_to_fit(self, slots: int) -> str | None:
        """Return why the cluster cannot run a job with this number of slots; None if it can, now or after growing."""
        usable = [node for node in self._nodes.values() if not node.refused]
        present = max((node.slots for node in usable), default=0) if self.single_node else self.slots
        if slots <= present or self.can_grow:
            return None
        found = ", ".join(f"{node.name}: {node.refused or node.slots}" for node in self._nodes.values()) or "no nodes"
        where = "a node of the Ray cluster has at most" if self.single_node else "the Ray cluster has"
        return f"a trial wants {counted(slots, f'{self.kind} slot')}, {where} {present} ({found})"
