"""The environment variables of a job."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from determined.engines.base import Interpreter, Job, Part
from determined.engines.command import Harness, Module, Program, Script, Shell, runnable
from determined.engines.job_environment import job_environment
from determined.engines.slots import Gpu, Slots, _all_gpus
from determined.info import from_env

TRIAL = {"DET_TASK_TYPE": "TRIAL", "DET_TRIAL_ID": "1", "DET_EXPERIMENT_ID": "1", "DET_TRIAL_SEED": "0"}


def job(slots: int = 1, **environment: str) -> Job:
    return Job("1.a.0", Harness("m:C"), {**TRIAL, **environment}, Path("."), slots)


def test_gpus() -> None:
    slots = Slots(3, (Gpu("0", "GPU-a"), Gpu("5", "GPU-b"), Gpu("GPU-c", "GPU-c")), 1)
    told = job_environment(job(2), [1, 2], slots, "/wakeups", {}, Interpreter())
    assert told["CUDA_VISIBLE_DEVICES"] == "5,GPU-c"
    info = from_env(told)
    assert info is not None
    assert info.slot_ids == [1, 2]
    assert info.gpu_uuids == ["GPU-b", "GPU-c"]
    assert info.container_slot_counts == [2]


def test_gpus_that_ray_gave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial on a cluster gets the indices and UUIDs of its GPUs on their node, as nvidia-smi lists them."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nfor i in 0 1 2 3; do echo $i, GPU-$i; done\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    _all_gpus.cache_clear()
    try:
        for given, ids, uuids in (
            (("2", "3"), [2, 3], ["GPU-2", "GPU-3"]),
            (("GPU-1",), [1], ["GPU-1"]),
            (("MIG-a", "3"), [0, 3], ["MIG-a", "GPU-3"]),
        ):
            part = Part(0, ("10.0.0.1",), (len(given),), 1, given)
            told = job_environment(
                replace(job(len(given)), part=part),
                list(range(len(given))),
                Slots(4, (), 1),
                "/wakeups",
                {},
                Interpreter(),
            )
            info = from_env(told)
            assert info is not None
            assert (told["CUDA_VISIBLE_DEVICES"], info.slot_ids, info.gpu_uuids) == (",".join(given), ids, uuids)
    finally:
        _all_gpus.cache_clear()


def test_a_job_without_slots_sees_no_gpu() -> None:
    told = job_environment(job(0), [], Slots(1, (Gpu("0"),), 1), "/wakeups", {}, Interpreter())
    assert told["CUDA_VISIBLE_DEVICES"] == ""
    assert told["DET_CONTAINER_SLOT_COUNTS"] == "[1]"
    assert told["DET_SLOT_IDS"] == "[]"


def test_cpus() -> None:
    told = job_environment(job(2), [2, 3], Slots(4, (), 4), "/wakeups", {"PATH": "/bin"}, Interpreter())
    assert told["OMP_NUM_THREADS"] == "4"
    assert told["PATH"] == f"{os.path.dirname(sys.executable)}{os.pathsep}/bin"
    info = from_env(told)
    assert info is not None
    assert (info.slot_ids, info.container_slot_counts, info.allocation_id) == ([0, 1], [2], "1.a.0")


def test_the_run_around_us_is_forgotten_and_settings_are_kept() -> None:
    outer = {
        "DET_LATEST_CHECKPOINT": "x",
        "DET_SEARCHER_GOAL": "3",
        "LOCAL_RANK": "1",
        "MASTER_PORT": "1",
        "DET_STORE": "/store",
        "HOME": "/home",
        "A": "outer",
    }
    told = job_environment(job(A="own"), [0], Slots(1, (), 1), "/wakeups", outer, Interpreter())
    assert {name: told.get(name) for name in outer} == {
        **dict.fromkeys(outer),
        "DET_STORE": "/store",
        "HOME": "/home",
        "A": "own",
    }


def test_a_trial_class_is_trained_on_all_of_its_slots() -> None:
    assert runnable(Harness("m:C"), 1) == Module(("determined.exec.harness", "m:C"))
    assert runnable(Harness("m:C"), 2) == Module(("determined.launch.torch_distributed", "--trial", "m:C"))
    assert runnable(Script(("a.py",)), 2) == Script(("a.py",))
    assert runnable(Shell("a | b"), 1) == Program(("sh", "-c", "a | b"))
