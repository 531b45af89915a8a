"""The reader of CIFAR-10's binary version, and the generated shapes that replace the data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch


@pytest.fixture
def data(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("cifar10_pytorch", "data")


def write_set(root: Path) -> np.ndarray:
    random = np.random.default_rng(0)
    records = random.integers(0, 256, (4, 3073), dtype=np.uint8)
    records[:, 0] = [3, 0, 9, 7]
    for name in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        records.tofile(root / name)
    return records


def test_shapes_are_the_default(data: ModuleType) -> None:
    state = torch.get_rng_state(), np.random.get_state(legacy=False)
    train, validation = data.load({})
    assert (len(train), len(validation)) == (2000, 500)
    image, label = train[0]
    assert image.shape == (3, 32, 32)
    assert label.dtype == torch.int64
    assert -1 <= train.tensors[0].min() < train.tensors[0].max() <= 1
    assert torch.bincount(train.tensors[1]).tolist() == [200] * 10
    assert torch.equal(train.tensors[0], data.load({"source": "shapes"})[0].tensors[0])
    assert not torch.equal(train.tensors[0][:500], validation.tensors[0])
    assert torch.equal(torch.get_rng_state(), state[0])
    np.testing.assert_equal(np.random.get_state(legacy=False), state[1])


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-bin"])
def test_binary_version(data: ModuleType, tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    records = write_set(tmp_path / inside)
    train, validation = data.load({"source": "cifar10", "path": str(tmp_path)})
    assert (len(train), len(validation)) == (20, 4)
    image, label = validation[2]
    assert label == 9
    red = records[2, 1 : 1 + 1024].reshape(32, 32) / 127.5 - 1
    torch.testing.assert_close(image[0], torch.from_numpy(red).float())


def test_damaged_files(data: ModuleType, tmp_path: Path) -> None:
    write_set(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(ValueError, match=r"data_batch_3\.bin: 12287 bytes are not a whole number of records"):
        data.load({"source": "cifar10", "path": str(tmp_path)})
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="0 bytes are not"):
        data.load({"source": "cifar10", "path": str(tmp_path)})
    path.write_bytes(b"\x0b" + content[1:])
    with pytest.raises(ValueError, match="a label is 11, expected 0 to 9"):
        data.load({"source": "cifar10", "path": str(tmp_path)})
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"data_batch_3\.bin: not there"):
        data.load({"source": "cifar10", "path": str(tmp_path)})


def test_configuration(data: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"data\.path must name"):
        data.load({"source": "cifar10"})
    with pytest.raises(ValueError, match="shapes or cifar10, got 'imagenet'"):
        data.load({"source": "imagenet"})
    assert data.from_option("shapes") == {"source": "shapes"}
    assert data.from_option("there") == {"source": "cifar10", "path": "there"}
