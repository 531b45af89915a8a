"""Which slots a machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from determined.engines import slots
from determined.engines.slots import Gpu, Slots, find_gpus, find_slots
from determined.errors import EngineError


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine whose nvidia-smi lists two GPUs."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, GPU-aaa'\necho '1, GPU-bbb'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("no_gpus")
def test_without_gpus_the_cpus_are_shared() -> None:
    cpus = len(os.sched_getaffinity(0))
    assert find_slots(None, {}) == Slots(cpus, (), 1, cpus)
    assert find_slots(1, {}) == Slots(1, (), cpus, cpus)
    assert find_slots(None, {"DET_SLOTS": "64"}) == Slots(64, (), 1, cpus)
    assert find_slots(1, {"DET_SLOTS": "64"}).count == 1


@pytest.mark.usefixtures("no_gpus")
def test_threads_are_limited_unless_the_user_did() -> None:
    found = Slots(2, (), 3)
    assert found.environment([1], {}) == {"OMP_NUM_THREADS": "3"}
    assert found.environment([1], {"OMP_NUM_THREADS": "7"}) == {}


@pytest.mark.usefixtures("two_gpus")
def test_gpus_are_counted_without_torch() -> None:
    found = find_slots(None, {})
    assert found.gpus == (Gpu("0", "GPU-aaa"), Gpu("1", "GPU-bbb"))
    assert found.count == 2
    assert found.environment([1], {}) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert find_slots(1, {}).gpus == (Gpu("0", "GPU-aaa"),)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("visible", "names"),
    [("1", ["1"]), ("1,0", ["1", "0"]), ("", []), ("-1", []), ("GPU-bbb", ["GPU-bbb"]), ("0,-1,1", ["0"])],
)
def test_gpus_that_the_user_hides_are_not_there(visible: str, names: list[str]) -> None:
    assert [gpu.name for gpu in find_gpus({"CUDA_VISIBLE_DEVICES": visible})] == names


@pytest.mark.usefixtures("two_gpus")
def test_more_slots_than_gpus_are_refused() -> None:
    with pytest.raises(EngineError, match="3 slots were requested, but this machine has only 2 GPUs"):
        find_slots(3, {})
    assert find_slots(3, {"CUDA_VISIBLE_DEVICES": ""}).gpus == ()


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(("wanted", "env"), [(0, {}), (-1, {}), (None, {"DET_SLOTS": "0"}), (None, {"DET_SLOTS": "x"})])
def test_numbers_that_make_no_sense(wanted: int | None, env: dict[str, str]) -> None:
    with pytest.raises(EngineError, match="positive integer"):
        find_slots(wanted, env)


def test_gpus_as_the_driver_lists_them(tmp_path: Path) -> None:
    for number, place in enumerate(["0000:01:00.0", "0000:02:00.0"]):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text(f"Model: \t x\nGPU UUID: \t GPU-{number}\n")
    assert slots._from_driver(tmp_path) == (Gpu("0", "GPU-0"), Gpu("1", "GPU-1"))
    assert slots._from_driver(tmp_path / "none") == ()
