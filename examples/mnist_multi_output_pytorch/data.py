"""Images of ten classes: the digits of scikit-learn (no download), or MNIST-like data sets as IDX files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from determined import TrialContext

FASHION_MNIST = "/usr/share/datasets/fashion-mnist"  # where Debian's dataset-fashion-mnist puts its files
TRAINING, VALIDATION = "train", "t10k"


class Images(TensorDataset):
    """Pairs of an image and its class, all in memory."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, *, mean: float, std: float) -> None:
        scaled = (torch.from_numpy(pixels.astype(np.float32)) - mean) / std
        super().__init__(scaled.unsqueeze(1), torch.from_numpy(labels.astype(np.int64)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of one image."""
        channels, height, width = self.tensors[0].shape[1:]
        return channels, height, width


def settings(context: TrialContext) -> dict[str, Any]:
    """Return the `data` part of the experiment configuration; without a configuration that of the default data."""
    try:
        return context.get_data_config()
    except ValueError:
        return {}


def load(config: Mapping[str, Any], *, mean: float = 0.1307, std: float = 0.3081) -> tuple[Images, Images]:
    """Return the training and the validation images for the `data` part of a configuration."""
    source = config.get("source", "digits")
    if source == "digits":
        train, validation = digits()
    elif source == "idx":
        if "path" not in config:
            raise ValueError("data.source is idx: data.path must name the directory of the four IDX files")
        train, validation = (read_images(config["path"], part) for part in (TRAINING, VALIDATION))
    elif source == "fashion-mnist":
        root = config.get("path", FASHION_MNIST)
        train, validation = (read_images(root, part) for part in (TRAINING, VALIDATION))
    else:
        raise ValueError(f"data.source must be digits, idx or fashion-mnist, got {source!r}")
    return Images(*train, mean=mean, std=std), Images(*validation, mean=mean, std=std)


def from_option(option: str) -> dict[str, str]:
    """Return the `data` part of a configuration for --data: the name of a source, or a directory of IDX files."""
    if option in ("digits", "fashion-mnist"):
        return {"source": option}
    return {"source": "idx", "path": option}


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return 1,797 handwritten digits of 8x8 pixels, enlarged to 24x24; a fifth of them is for validation."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.kron(bunch.images / 16.0, np.ones((1, 3, 3)))
    # The file is ordered by writer. A separate generator shuffles it, equally in every process and every run.
    order = np.random.default_rng(0).permutation(len(pixels))
    validation, train = np.split(order, [len(order) // 5])
    return (pixels[train], bunch.target[train]), (pixels[validation], bunch.target[validation])


def read_images(root: str | Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the images, scaled to 0..1, and the labels of one part of an MNIST-like data set."""
    pixels = read_idx(find(root, f"{part}-images-idx3-ubyte"), axes=3)
    labels = read_idx(find(root, f"{part}-labels-idx1-ubyte"), axes=1)
    if len(pixels) != len(labels):
        raise ValueError(f"{root}: {len(pixels)} images but {len(labels)} labels in the part {part!r}")
    if labels.size and labels.max() > 9:
        raise ValueError(f"{root}: a label is {labels.max()}, expected 0 to 9, in the part {part!r}")
    return pixels / np.float32(255), labels


def find(root: str | Path, name: str) -> Path:
    """Return the file of that name, compressed or not, with either of the two spellings in use."""
    spellings = [name, name.replace("-idx", ".idx")]
    for candidate in [f"{spelling}{suffix}" for spelling in spellings for suffix in ("", ".gz")]:
        if (Path(root) / candidate).is_file():
            return Path(root) / candidate
    raise FileNotFoundError(f"{root}: no file {name} or {name}.gz")


def read_idx(path: Path, *, axes: int) -> np.ndarray:
    """Read one IDX file of bytes: a magic number, the length of each axis, the values."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: cannot be unpacked, the download may be incomplete: {error}") from error
    magic, expected = content[:4].hex(), f"000008{axes:02x}"
    if magic != expected:
        raise ValueError(f"{path}: not an IDX file with {axes} axes: it begins with {magic}, expected {expected}")
    start = 4 + 4 * axes
    if len(content) < start:
        raise ValueError(f"{path}: ends within its header, the download may be incomplete")
    shape = tuple(int(length) for length in np.frombuffer(content, ">u4", axes, offset=4))
    if len(content) - start != np.prod(shape, dtype=np.int64):
        raise ValueError(f"{path}: its header promises {shape} bytes, {len(content) - start} are there")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
