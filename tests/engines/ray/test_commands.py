"""Commands for a node arrive in calls that are repeated and overtake each other."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from determined.engines.ray.node.commands import NumberedCommands


@given(st.data())
def test_every_command_is_executed_once_and_in_order(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 12))
    cuts = sorted(data.draw(st.sets(st.integers(1, total))) | {0, total})
    calls = [[(number + 1, [f"command {number + 1}"]) for number in range(a, b)] for a, b in pairwise(cuts)]
    repeated = data.draw(st.lists(st.sampled_from(calls), max_size=5))
    commands = NumberedCommands()
    executed = []
    for call in data.draw(st.permutations(calls + repeated)):
        commands.add(call)
        if data.draw(st.booleans()):
            executed += commands.take()
    executed += commands.take()
    assert executed == [[f"command {number + 1}"] for number in range(total)]


def test_a_command_that_overtook_another_waits_for_it() -> None:
    commands = NumberedCommands()
    commands.add([(2, ["kill"])])
    assert commands.take() == []
    commands.add([(1, ["start"])])
    assert commands.take() == [["start"], ["kill"]]
