"""Which placement groups are requested, kept and returned, for any sequence of grants, losses and refusals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from determined.engines.ray.placement import Groups, Share, shares_of

NODES = ("a", "b", "c")


class PlacementMachine(RuleBasedStateMachine):
    """A model of what Ray holds for an experiment, compared with what the experiment believes."""

    @initialize(slots=st.integers(1, 3))
    def begin(self, slots: int) -> None:
        self.groups = Groups(slots)
        self.slots = slots
        self.held: dict[int, tuple[Share, ...]] = {}  # groups at Ray; without shares while they are pending
        self.jobs: dict[str, tuple[Share, ...]] = {}
        self.started = 0
        self.dropped: set[int] = set()  # on nodes that are not used any more, until their job has ended

    @rule(wanted=st.integers(0, 5))
    def plan(self, wanted: int) -> None:
        new, returned = self.groups.plan(wanted)
        assert not set(new) & set(returned)
        for number in returned:
            assert not any(shares is self.held[number] for shares in self.jobs.values() if shares)
            del self.held[number]
        self.held.update(dict.fromkeys(new, ()))
        assert len(self.groups) == max(wanted, len(self.jobs))

    @precondition(lambda self: any(not shares for shares in self.held.values()))
    @rule(data=st.data())
    def grant(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([number for number, shares in self.held.items() if not shares]))
        nodes = data.draw(st.lists(st.sampled_from(NODES), min_size=self.slots, max_size=self.slots))
        self.held[number] = shares_of(nodes, [""] * self.slots)
        assert self.groups.grant(number, self.held[number])

    @rule(number=st.integers(1000, 2000))
    def grant_of_a_returned_group(self, number: int) -> None:
        assert not self.groups.grant(number, [Share("a", self.slots)])

    @rule(ready=st.sets(st.sampled_from(NODES)))
    def start(self, ready: set[str]) -> None:
        for group in self.groups.free(ready):
            assert {share.node for share in group.shares} <= ready
            self.started += 1
            group.job = f"job {self.started}"
            self.jobs[group.job] = self.held[group.number]

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.jobs)))
        shares = self.jobs.pop(key)
        mine = [number for number in self.dropped if self.held[number] is shares]
        assert self.groups.finish(key) == mine
        for number in mine:
            self.dropped.remove(number)
            del self.held[number]

    @rule(node=st.sampled_from(NODES))
    def lose(self, node: str) -> None:
        on_node = {number for number, shares in self.held.items() if any(share.node == node for share in shares)}
        with_job = {number for number in on_node if any(self.held[number] is shares for shares in self.jobs.values())}
        assert set(self.groups.drop_node(node)) == on_node - with_job
        self.dropped |= with_job
        for number in on_node - with_job:
            del self.held[number]

    @invariant()
    def both_know_the_same(self) -> None:
        if not hasattr(self, "groups"):
            return
        granted = [number for number, shares in self.held.items() if shares]
        assert len(self.groups) == len(self.held)
        assert self.groups.granted_slots() == self.slots * len(granted)
        free = self.groups.free(set(NODES))
        assert len(free) == len(granted) - len(self.jobs)
        assert all(group.job is None for group in free)


TestPlacement = PlacementMachine.TestCase


@given(st.lists(st.sampled_from(NODES), min_size=1, max_size=12))
def test_shares_hold_every_slot_once_and_the_chief_has_most(nodes: list[str]) -> None:
    gpus = [f"{index}" for index in range(len(nodes))]
    shares = shares_of(nodes, gpus)
    assert {share.node: share.slots for share in shares} == {node: nodes.count(node) for node in nodes}
    assert sorted(gpu for share in shares for gpu in share.gpus) == sorted(gpus)
    for share in shares:
        assert all(nodes[int(gpu)] == share.node for gpu in share.gpus)
    assert [share.slots for share in shares] == sorted((share.slots for share in shares), reverse=True)


@given(st.lists(st.sampled_from(NODES), min_size=1, max_size=12))
def test_shares_do_not_depend_on_the_order_of_bundles(nodes: list[str]) -> None:
    """Ranks are numbered by shares: a trial that resumes gets the same order of nodes."""
    none = [""] * len(nodes)
    assert shares_of(nodes, none) == shares_of(nodes[::-1], none)
    assert all(share.gpus == () for share in shares_of(nodes, none))


def test_groups_that_are_not_granted_are_returned_first() -> None:
    groups = Groups(1)
    assert groups.plan(3) == ([1, 2, 3], [])
    groups.grant(1, [Share("a", 1)])
    groups.grant(3, [Share("b", 1)])
    assert groups.plan(2) == ([], [2])
    (first, _) = groups.free({"a", "b"})
    first.job = "job"
    assert groups.plan(0) == ([], [3])
    groups.finish("job")
    assert groups.plan(0) == ([], [1])
