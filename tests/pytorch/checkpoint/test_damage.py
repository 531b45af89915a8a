"""A damaged checkpoint is detected, and the damaged file is named, before anything is loaded."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from determined import errors, pytorch
from determined.user_code.program import Program
from tests.helpers.trials import LineTrial, checkpoints, fit


def emptied(data: bytes) -> bytes:
    return b""


def first_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def last_byte_missing(data: bytes) -> bytes:
    return data[:-1]


def one_bit_flipped(data: bytes) -> bytes:
    position = random.Random(len(data)).randrange(len(data))
    return data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :]


def zeros(data: bytes) -> bytes:
    return bytes(len(data))


def something_appended(data: bytes) -> bytes:
    return data + b"\n"


DAMAGES: list[Callable[[bytes], bytes] | None] = [
    emptied,
    first_half,
    last_byte_missing,
    one_bit_flipped,
    zeros,
    something_appended,
    None,  # the file is removed
]


def damaged_copies(checkpoint: Path, target: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
        for damage in DAMAGES:
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(checkpoint, target)
            copy = target / file.relative_to(checkpoint)
            if damage is None:
                copy.unlink()
            elif damage(file.read_bytes()) == file.read_bytes():
                continue  # an empty file cannot be emptied
            else:
                copy.write_bytes(damage(file.read_bytes()))
            name = file.relative_to(checkpoint).as_posix()
            yield f"{name}: {damage.__name__ if damage else 'removed'}", target


def test_every_kind_of_damage_to_every_file_is_named_and_nothing_is_loaded(
    data_home: Path, work_dir: Path, tmp_path: Path
) -> None:
    (work_dir / "model.py").write_text("x = 1\n")
    fit(LineTrial, max_length=pytorch.Batch(3), options={"program": Program("script", work_dir / "model.py")})
    (checkpoint,) = checkpoints(data_home)
    tried = 0
    with pytorch.init(hparams={"global_batch_size": 2, "lr": 0.1}) as context:
        trial = LineTrial(context)
        weight = trial.weight.clone()
        for what, copy in damaged_copies(checkpoint, data_home / "determined" / "checkpoints" / "damaged-copy"):
            for name in ("damaged-copy", str(copy)):
                with pytest.raises(errors.InvalidCheckpointException, match=r"checkpoint .*damaged-copy is damaged: "):
                    pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(6), latest_checkpoint=name)
            with pytest.raises(errors.InvalidCheckpointException, match=r"checkpoint .*damaged-copy is damaged: "):
                pytorch.load_trial_from_checkpoint_path(copy, trial_class=LineTrial)
            assert trial.batch_indices == [], what
            assert trial.weight.equal(weight), what
            tried += 1
    assert tried >= 6 * len(DAMAGES)


def test_files_added_later_do_no_harm(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(3))
    (checkpoint,) = checkpoints(data_home)
    (checkpoint / "notes.txt").write_text("the good one")
    assert fit(LineTrial, max_length=pytorch.Batch(4), latest_checkpoint=checkpoint.name).batch_indices == [3]
