"""Checkpoints of an attacker who wants to run code here: no code runs, and the error names the checkpoint."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import operator
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from determined import errors, pytorch
from determined.checkpoint_storage import manifest
from tests.helpers.trials import HPARAMS, LineTrial, checkpoints, fit

STATE_FILES = [
    "state_dict.pth",
    "determined/state_dict.pth",
    "pedl/state_dict.pth",
    "data/state_dict.pth",
    "checkpoint.pt",
]
COUNTERS = ["trial_state.pkl", "workload_sequencer.pkl"]


class Call:
    """Unpickling it calls a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def gadgets(canary: Path) -> dict[str, Any]:
    """Return objects that create the canary's file when they are unpickled without a check."""
    touch, code = f"touch {canary}", f"open({str(canary)!r}, 'w').close()"
    inner = io.BytesIO()
    torch.save(Call(os.system, touch), inner)
    objects = np.empty(1, dtype=object)
    objects[0] = Call(os.system, touch)
    return {
        "os.system": Call(os.system, touch),
        "exec": Call(builtins.exec, code),
        "eval": Call(builtins.eval, code),
        "Popen": Call(subprocess.check_call, ["touch", str(canary)]),
        "partial": Call(functools.partial(os.system, touch)),
        "reduce": Call(functools.reduce, operator.add, [Call(os.system, touch), 1]),
        "methodcaller": Call(operator.methodcaller("touch"), canary),
        "a file of torch's in a file of torch's": Call(torch.storage._load_from_bytes, inner.getvalue()),
        "torch.load without its guard": Call(functools.partial(torch.load, weights_only=False), str(canary) + ".pth"),
        "numpy.load without its guard": Call(functools.partial(np.load, allow_pickle=True), str(canary) + ".npy"),
        "an array of objects": objects,
        "torch's command runner": Call(torch.utils.collect_env.run, touch),
        "getattr": Call(getattr, Call(os.system, touch), "real"),
    }


def in_zip(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def in_legacy_format(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def in_plain_pickle(value: Any) -> bytes:
    return pickle.dumps(value, protocol=0)


def in_new_pickle(value: Any) -> bytes:
    return pickle.dumps(value, protocol=4)


PACKINGS = [in_zip, in_legacy_format, in_plain_pickle, in_new_pickle]


def state_with(gadget: Any) -> dict[str, Any]:
    return {
        "models_state_dict": [{"weight": torch.ones(1, 1)}],
        "optimizers_state_dict": [torch.optim.SGD([torch.nn.Parameter(torch.ones(1, 1))], lr=0.1).state_dict()],
        "lr_schedulers_state_dict": [],
        "callbacks": {},
        "more": gadget,
    }


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return the file that must never exist; beside it are files that would create it if they were loaded."""
    canary = tmp_path / "canary"
    Path(f"{canary}.pth").write_bytes(in_legacy_format(Call(os.system, f"touch {canary}")))
    array = np.empty(1, dtype=object)
    array[0] = Call(os.system, f"touch {canary}")
    np.save(f"{canary}.npy", array, allow_pickle=True)
    return canary


@contextlib.contextmanager
def victim(canary: Path) -> Iterator[Callable[[Path, str], list[str]]]:
    """A program that loads checkpoints by path and by id, in both ways; returns its output about each."""
    with pytorch.init(hparams=HPARAMS) as context:
        trial = LineTrial(context)

        def take(directory: Path, what: str) -> list[str]:
            said = []
            for name in (directory.name, directory):
                with pytest.raises(errors.InvalidCheckpointException) as raised:
                    pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(1), latest_checkpoint=name)
                said.append(str(raised.value))
            with pytest.raises(errors.InvalidCheckpointException) as raised:
                pytorch.load_trial_from_checkpoint_path(directory, trial_class=LineTrial)
            said.append(str(raised.value))
            assert not canary.exists(), what
            assert trial.batch_indices == [], what
            for text in said:
                assert text.startswith("checkpoint "), what
                assert directory.name in text.splitlines()[0], what
            return said

        yield take


def test_the_gadgets_work_without_a_check(canary: Path) -> None:
    """Otherwise the tests below would prove nothing."""
    for name, gadget in gadgets(canary).items():
        for packing in PACKINGS:
            data = packing(gadget)
            canary.unlink(missing_ok=True)
            with contextlib.suppress(Exception):  # some cannot continue after their call
                if packing in (in_zip, in_legacy_format):
                    torch.load(io.BytesIO(data), weights_only=False)
                else:
                    pickle.loads(data)
            assert canary.exists(), f"{name}, {packing.__name__}"


def test_state_files_under_every_name(data_home: Path, canary: Path) -> None:
    """As earlier releases wrote them: without a manifest."""
    with victim(canary) as take:
        for file in STATE_FILES:
            for packing in PACKINGS:
                for name, gadget in gadgets(canary).items():
                    if file != STATE_FILES[0] and name != "os.system":
                        continue
                    directory = data_home / "determined" / "checkpoints" / "hostile"
                    shutil.rmtree(directory, ignore_errors=True)
                    (directory / file).parent.mkdir(parents=True)
                    (directory / file).write_bytes(packing(state_with(gadget)))
                    take(directory, f"{file}, {packing.__name__}, {name}")


def test_counters_under_every_old_name(data_home: Path, canary: Path) -> None:
    directory = data_home / "determined" / "checkpoints" / "hostile"
    directory.mkdir(parents=True)
    for file in COUNTERS:
        for packing in (in_plain_pickle, in_new_pickle):
            for name, gadget in gadgets(canary).items():
                (directory / "state_dict.pth").write_bytes(in_zip(state_with(None)))
                (directory / file).write_bytes(packing({"trial_id": 0, "batches_trained": 1, "more": gadget}))
                with pytest.raises(errors.InvalidCheckpointException, match=r"checkpoint .*hostile cannot be read"):
                    fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint=directory)
                assert isinstance(
                    pytorch.load_trial_from_checkpoint_path(directory, trial_class=LineTrial), LineTrial
                )  # does not read counters
                assert not canary.exists(), f"{file}, {packing.__name__}, {name}"
        (directory / file).unlink()


def test_every_file_of_a_new_checkpoint_exchanged(data_home: Path, work_dir: Path, canary: Path) -> None:
    """With the original manifest, and with one that contains the hash of the hostile file."""
    (work_dir / "model.py").write_text("x = 1\n")
    fit(LineTrial, max_length=pytorch.Batch(3))
    (good,) = checkpoints(data_home)
    files = [file.relative_to(good) for file in sorted(good.rglob("*")) if file.is_file()]
    assert {"state_dict.pth", "trial_state.json", "load_data.json", "metadata.json", "manifest.json"} <= set(
        map(str, files)
    )
    hostile = good.with_name("hostile")
    with victim(canary) as take:
        for file in files:
            for packing in PACKINGS:
                data = packing(state_with(gadgets(canary)["os.system"]))
                shutil.rmtree(hostile, ignore_errors=True)
                shutil.copytree(good, hostile)
                (hostile / file).write_bytes(data)
                assert all("is damaged" in text for text in take(hostile, str(file)))
                if str(file) == manifest.MANIFEST_FILE:
                    continue
                manifest.write(hostile)
                if str(file) == "state_dict.pth":
                    take(hostile, f"{file} with its manifest")
                else:
                    nothing_runs(hostile, canary)


def nothing_runs(directory: Path, canary: Path) -> None:
    """Loaded or rejected: files that one way does not need are not read in it."""
    with contextlib.suppress(errors.InvalidCheckpointException):
        fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint=directory)
    with contextlib.suppress(errors.InvalidCheckpointException):
        pytorch.load_trial_from_checkpoint_path(directory, trial_class=LineTrial)
    assert not canary.exists()


@pytest.mark.parametrize(
    "file", ["model.pth", "model.pt", "optimizer.pth", "metadata", "rng_state.pkl", "saved_model.pkl"]
)
def test_unneeded_files_are_not_read(file: str, data_home: Path, canary: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(3))
    (good,) = checkpoints(data_home)
    (good / file).write_bytes(in_plain_pickle(gadgets(canary)["os.system"]))
    assert fit(LineTrial, max_length=pytorch.Batch(4), latest_checkpoint=good.name).batch_indices == [3]
    pytorch.load_trial_from_checkpoint_path(good, trial_class=LineTrial)
    assert not canary.exists()
