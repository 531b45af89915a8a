"""Which nodes of a cluster an experiment uses, and why it does not use others."""

from __future__ import annotations

from determined.engines.ray.nodes import Nodes

FIRST, SECOND = ["a", "10.0.0.1", "first", 2], ["b", "10.0.0.2", "second", 4]


def two_nodes(*, single_node: bool = False) -> Nodes:
    nodes = Nodes(single_node)
    assert nodes.update([FIRST, SECOND]) == set()
    return nodes


def test_a_node_keeps_what_is_known_of_it() -> None:
    nodes = two_nodes()
    nodes.note_ready("a")
    nodes.refuse("b", "too old")
    assert nodes.update([["a", "10.0.0.1", "renamed", 8], SECOND]) == set()
    assert (nodes.name("a"), nodes.slots, nodes.ready()) == ("renamed", 8, {"a"})
    assert nodes.refused() == {"b": "too old"}
    assert nodes.update([SECOND]) == {"a"}
    nodes.remove("a")
    assert list(nodes) == ["b"]
    # Late messages of a node that has left are ignored.
    nodes.note_ready("a")
    assert nodes.count_lost_actor("a", "fire") == nodes.count_job("a", failed_to_start=True) == ""
    assert not nodes.is_usable("a")
    assert nodes.ready() == set()


def test_a_node_whose_actor_starts_and_dies_is_used_again() -> None:
    nodes = two_nodes()
    for _ in range(9):
        nodes.note_ready("a")
        assert nodes.count_lost_actor("a", "killed") == ""
        assert nodes.ready() == set()


def test_a_node_whose_actor_never_starts_is_refused_the_third_time() -> None:
    nodes = two_nodes()
    said = [nodes.count_lost_actor("a", "no module determined") for _ in range(3)]
    assert said == ["", "", "its actor could not be started: no module determined"]


def test_a_node_on_which_jobs_cannot_be_started_is_refused_the_third_time_in_a_row() -> None:
    nodes = two_nodes()
    starts = [nodes.count_job("a", failed_to_start=failed) for failed in (True, True, False, True, True)]
    assert starts == [""] * 5
    assert nodes.count_job("a", failed_to_start=True) == "jobs could not be started there, see their logs"


def test_what_can_never_fit() -> None:
    nodes = two_nodes()
    assert nodes.reason_not_to_fit(6) is None
    assert nodes.reason_not_to_fit(7) == "a trial wants 7 CPU slots, the Ray cluster has 6 (first: 2, second: 4)"
    nodes.refuse("b", "too old")
    assert nodes.reason_not_to_fit(3) == "a trial wants 3 CPU slots, the Ray cluster has 2 (first: 2, second: too old)"
    nodes.can_grow = True
    assert nodes.reason_not_to_fit(7) is None


def test_what_can_never_fit_on_one_node() -> None:
    nodes = two_nodes(single_node=True)
    assert nodes.reason_not_to_fit(4) is None
    assert nodes.reason_not_to_fit(5) == (
        "a trial wants 5 CPU slots, a node of the Ray cluster has at most 4 (first: 2, second: 4)"
    )
