"""When and how a job with parts on several nodes has ended, in whatever order its parts end or are lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from determined.engines.base import Exited
from determined.engines.ray.jobs import Jobs
from determined.engines.ray.placement import Share


def started(*nodes: str) -> Jobs:
    jobs = Jobs()
    jobs.add("job", [Share(node, 1) for node in nodes])
    return jobs


def exited(code: int, *, cpu: float = 1.0) -> Exited:
    return Exited("job", code, None, False, cpu)


def test_the_other_parts_are_killed_three_seconds_after_a_failure() -> None:
    jobs = started("a", "b", "c")
    assert jobs.end_part("b", exited(7), 100.0) is None
    assert jobs.overdue(102.9) == []
    # A later failure follows from the first one and does not extend the time.
    assert jobs.end_part("c", exited(1), 102.0) is None
    assert jobs.overdue(103.0) == ["job"]
    assert jobs.overdue(200.0) == []
    assert jobs.missing("job") == ["a"]
    assert jobs.end_part("a", exited(137), 103.5) == Exited("job", 7, None, False, 3.0)
    assert "job" not in jobs


def test_a_part_that_ends_well_waits_for_the_others() -> None:
    jobs = started("a", "b")
    assert jobs.end_part("b", exited(0), 0.0) is None
    assert jobs.overdue(1e9) == []
    assert jobs.end_part("a", exited(4), 1e9) == Exited("job", 4, None, False, 2.0)


def test_the_parts_beside_a_lost_one_are_killed_at_once() -> None:
    jobs = started("a", "b")
    jobs.add("elsewhere", [Share("c", 1)])
    assert jobs.lose_node("b", "second (fire)", 5.0) == []
    assert jobs.overdue(5.0) == ["job"]
    (result,) = jobs.lose_node("a", "first (fire)", 6.0)
    assert (result.key, result.lost, result.lost_node) == ("job", True, "first (fire)")
    assert list(jobs) == ["elsewhere"]
    assert jobs.lose_node("a", "again", 7.0) == []


@settings(deadline=None)  # a busy machine needs more time
@given(st.permutations(["a", "b", "c"]), st.lists(st.sampled_from([0, 1, 9, None]), min_size=3, max_size=3))
def test_the_first_failure_counts(order: list[str], codes: list[int | None]) -> None:
    """An exit code of None means that the node is lost."""
    jobs = started("a", "b", "c")
    results = []
    for now, (node, code) in enumerate(zip(order, codes, strict=True)):
        if code is None:
            results += jobs.lose_node(node, node, float(now))
        elif (result := jobs.end_part(node, exited(code), float(now))) is not None:
            results.append(result)
    (only,) = results
    assert only.lost == (None in codes)
    failures = [137 if code is None else code for code in codes if code != 0]
    assert only.code == (failures[0] if failures else 0)


@pytest.mark.parametrize(("nodes", "lost"), [(["a", "b"], True), (["a"], False)])
def test_a_taken_port_is_the_fault_of_a_trial_on_one_node_only(nodes: list[str], lost: bool) -> None:
    jobs = started(*nodes)
    jobs.note_line("job", "failed to listen: EADDRINUSE")
    results = [jobs.end_part(node, exited(1), 0.0) for node in nodes]
    assert results[-1] is not None
    assert results[-1].lost == lost


def test_what_parts_report() -> None:
    jobs = started("a", "b")
    jobs.note_status("a", "job", 1.0, False)
    jobs.note_status("b", "job", 2.0, False)
    jobs.note_status("a", "job", 4.0, False)
    jobs.note_status("a", "unknown", 4.0, True)
    assert jobs.cpu_seconds("job") == 6.0
    assert not jobs.has_listener("job")
    jobs.note_listener("job")
    assert jobs.has_listener("job")
    assert (jobs.cpu_seconds("unknown"), jobs.has_listener("unknown"), jobs.missing("unknown")) == (0.0, False, [])
