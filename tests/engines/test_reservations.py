"""Slots that processes of one user reserve on a machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from determined.engines.reservations import Reservation, SlotHolder, SlotLocks, slot_locks
from determined.engines.slots import Slots, find_slots

ONE, TWO = SlotHolder(1, "a.sqlite", 11), SlotHolder(2, "b.sqlite", 22)


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, GPU-aaa'\necho '1, GPU-bbb'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_is_held_by_one_experiment_and_the_other_gets_the_next() -> None:
    one_slot = find_slots(1, {})
    first, second = (Reservation(one_slot, {}) for _ in range(2))
    got, other = first.gather(1, ONE), second.gather(1, TWO)
    assert got is not None
    assert other is not None
    assert [gpu.name for gpu in got.gpus + other.gpus] == ["0", "1"]
    third = Reservation(one_slot, {"CUDA_VISIBLE_DEVICES": "GPU-aaa"})  # the same GPU under another name
    assert third.gather(1, SlotHolder(3, "a.sqlite", 33)) is None
    assert third.missing(1) == "1 of 1 slot, held by experiment 1 (process 11, store a.sqlite)"
    first.close()
    assert third.gather(1, SlotHolder(3, "a.sqlite", 33)) is not None


def test_the_first_to_wait_gets_the_slots_first() -> None:
    machine = Slots(2, (), 1, 2)
    holder, large, small = (Reservation(machine, {}) for _ in range(3))
    assert holder.gather(1, ONE) is not None
    assert large.gather(2, TWO) is None  # it holds the other slot, and waits for the first
    assert small.gather(1, SlotHolder(3, "c", 3)) is None
    holder.close()
    assert small.gather(1, SlotHolder(3, "c", 3)) is None, "it overtakes the one that waits"
    assert large.gather(2, TWO) is not None
    large.close()
    assert small.gather(1, SlotHolder(3, "c", 3)) is not None


@pytest.mark.usefixtures("two_gpus")
def test_more_slots_keep_the_numbers_of_those_before() -> None:
    first, second = (Reservation(find_slots(2, {}), {}) for _ in range(2))
    assert first.gather(1, ONE) is not None
    one = second.gather(1, TWO)
    first.close()
    both = second.gather(2, TWO)
    assert one is not None
    assert both is not None
    assert ([gpu.name for gpu in one.gpus], [gpu.name for gpu in both.gpus]) == (["1"], ["1", "0"])


def test_more_slots_than_cpus_need_all_cpus() -> None:
    assert Reservation(Slots(8, (), 1, 2), {}).gather(8, ONE) is not None


def test_a_damaged_file_holds_nothing(tmp_path: Path) -> None:
    locks = slot_locks()
    assert locks.take("cpu-0", ONE)
    (path,) = Path(os.environ["XDG_STATE_HOME"]).glob("determined/slots/*/cpu-0")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("[1, 2")
    assert locks.holder("cpu-0") is None
    assert not slot_locks().take("cpu-0", TWO), "the lock counts, not what is written there"


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["take", "release"]), st.integers(0, 3)), max_size=40))
@settings(max_examples=50)
def test_no_slot_is_held_twice(steps: list[tuple[int, str, int]]) -> None:
    processes: list[SlotLocks] = [slot_locks() for _ in range(3)]
    owners: dict[str, int] = {}
    try:
        for process, step, slot in steps:
            name = f"cpu-{slot}"
            if step == "take":
                taken = processes[process].take(name, ONE)
                assert taken == (owners.get(name, process) == process)
                if taken:
                    owners[name] = process
            elif owners.get(name) == process:
                processes[process].release([name])
                del owners[name]
        assert [set(locks.held) for locks in processes] == [
            {name for name, owner in owners.items() if owner == number} for number in range(3)
        ]
    finally:
        for locks in processes:
            locks.close()
