"""The readers of MNIST-like data sets."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARING = ["mnist_pytorch", "mnist_multi_output_pytorch", "gan_mnist_pytorch"]


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def write_set(root: Path, *, pack: bool = False, spelling: str = "-idx", records: int = 6) -> np.ndarray:
    pixels = np.random.default_rng(0).integers(0, 256, (records, 5, 7), dtype=np.uint8)
    labels = (np.arange(records) % 10).astype(np.uint8)
    for part in ("train", "t10k"):
        for kind, values in (("images-idx3", pixels), ("labels-idx1", labels)):
            name = f"{part}-{kind}-ubyte".replace("-idx", spelling)
            content = idx(values)
            (root / (f"{name}.gz" if pack else name)).write_bytes(gzip.compress(content) if pack else content)
    return pixels


@pytest.fixture
def data(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("mnist_pytorch", "data")


def test_the_three_copies_are_identical() -> None:
    # Each example directory can be copied alone, so they do not share a file.
    assert len({(EXAMPLES / name / "data.py").read_bytes() for name in SHARING}) == 1


def test_digits_are_the_default(data: ModuleType) -> None:
    state = torch.get_rng_state()
    train, validation = data.load({})
    assert (len(train), len(validation)) == (1438, 359)
    assert train.shape == validation.shape == (1, 24, 24)
    assert sorted(set(train.tensors[1].tolist())) == list(range(10))
    again, _ = data.load({"source": "digits"})
    assert torch.equal(train.tensors[0], again.tensors[0])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("spelling", ["-idx", ".idx"])
def test_idx_files(data: ModuleType, tmp_path: Path, pack: bool, spelling: str) -> None:
    pixels = write_set(tmp_path, pack=pack, spelling=spelling)
    train, validation = data.load({"source": "idx", "path": str(tmp_path)}, mean=0, std=1)
    assert train.shape == (1, 5, 7)
    torch.testing.assert_close(train.tensors[0][:, 0], torch.from_numpy(pixels / 255).float())
    assert validation.tensors[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_fashion_mnist_is_read_from_its_directory(data: ModuleType, tmp_path: Path) -> None:
    write_set(tmp_path, pack=True)
    train, _ = data.load({"source": "fashion-mnist", "path": str(tmp_path)})
    assert len(train) == 6


def test_values_are_scaled_as_asked(data: ModuleType, tmp_path: Path) -> None:
    write_set(tmp_path)
    train, _ = data.load({"source": "idx", "path": str(tmp_path)}, mean=0.5, std=0.5)
    assert -1 <= train.tensors[0].min() < train.tensors[0].max() <= 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: b"PK" + content[2:], "begins with 504b0803, expected 00000803"),
        (lambda content: content[:-1], r"promises \(6, 5, 7\) bytes, 209 are there"),
        (lambda content: content + b"!", "211 are there"),
        (lambda content: content[:9], "ends within its header"),
        (lambda content: b"", "not an IDX file"),
    ],
)
def test_damaged_images(data: ModuleType, tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    write_set(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message) as caught:
        data.load({"source": "idx", "path": str(tmp_path)})
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("damage", [lambda content: content[:-20], lambda content: b"no gzip", lambda _: b""])
def test_damaged_gzip(data: ModuleType, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    write_set(tmp_path, pack=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz: "):
        data.load({"source": "idx", "path": str(tmp_path)})


def test_labels_must_fit_the_images(data: ModuleType, tmp_path: Path) -> None:
    write_set(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(5, np.uint8)))
    with pytest.raises(ValueError, match="6 images but 5 labels"):
        data.load({"source": "idx", "path": str(tmp_path)})
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.full(6, 77, np.uint8)))
    with pytest.raises(ValueError, match="a label is 77, expected 0 to 9"):
        data.load({"source": "idx", "path": str(tmp_path)})


def test_missing_files_and_unknown_sources(data: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file train-images-idx3-ubyte or train-images-idx3-ubyte\.gz"):
        data.load({"source": "idx", "path": str(tmp_path)})
    with pytest.raises(ValueError, match=r"data\.path must name"):
        data.load({"source": "idx"})
    with pytest.raises(ValueError, match="digits, idx or fashion-mnist, got 'svhn'"):
        data.load({"source": "svhn"})


def test_the_option(data: ModuleType) -> None:
    assert data.from_option("digits") == {"source": "digits"}
    assert data.from_option("fashion-mnist") == {"source": "fashion-mnist"}
    assert data.from_option("some/where") == {"source": "idx", "path": "some/where"}
