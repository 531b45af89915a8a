"""Colour images of ten classes: generated shapes (no download), or CIFAR-10 in its binary version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from determined import TrialContext

SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # a label and the red, green and blue planes
TRAINING = [f"data_batch_{number}.bin" for number in range(1, 6)]
VALIDATION = ["test_batch.bin"]


def settings(context: TrialContext) -> dict[str, Any]:
    """Return the `data` part of the experiment configuration; without a configuration that of the default data."""
    try:
        return context.get_data_config()
    except ValueError:
        return {}


def load(config: Mapping[str, Any]) -> tuple[TensorDataset, TensorDataset]:
    """Return the training and the validation images for the `data` part of a configuration."""
    source = config.get("source", "shapes")
    if source == "shapes":
        train, validation = draw_shapes(2000, seed=0), draw_shapes(500, seed=1)
    elif source == "cifar10":
        if "path" not in config:
            raise ValueError("data.source is cifar10: data.path must name the directory of data_batch_1.bin")
        train, validation = read_cifar(config["path"], TRAINING), read_cifar(config["path"], VALIDATION)
    else:
        raise ValueError(f"data.source must be shapes or cifar10, got {source!r}")
    return as_dataset(*train), as_dataset(*validation)


def from_option(option: str) -> dict[str, str]:
    """Return the `data` part of a configuration for the option --data: shapes, or a directory of CIFAR-10 files."""
    return {"source": "shapes"} if option == "shapes" else {"source": "cifar10", "path": option}


def as_dataset(pixels: np.ndarray, labels: np.ndarray) -> TensorDataset:
    """Convert bytes to numbers from -1 to 1, as with a mean and a standard deviation of one half."""
    return TensorDataset(
        torch.from_numpy(pixels.astype(np.float32) / 127.5 - 1), torch.from_numpy(labels.astype(np.int64))
    )


def read_cifar(root: str | Path, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read files of CIFAR-10's binary version, where the archive was unpacked or in its own directory."""
    unpacked = Path(root) / "cifar-10-batches-bin"
    root = unpacked if unpacked.is_dir() else Path(root)
    records = np.concatenate([read_records(root / name) for name in names])
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE), records[:, 0]


def read_records(path: Path) -> np.ndarray:
    """Read the records of one file, one per row."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: not there; data.path must name a directory with CIFAR-10's .bin files")
    content = np.fromfile(path, np.uint8)
    if not content.size or content.size % RECORD:
        raise ValueError(
            f"{path}: {content.size} bytes are not a whole number of records of {RECORD}: "
            "the file is damaged, or not of CIFAR-10's binary version"
        )
    records = content.reshape(-1, RECORD)
    if records[:, 0].max() > 9:
        raise ValueError(f"{path}: a label is {records[:, 0].max()}, expected 0 to 9")
    return records


def draw_shapes(count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw shapes of ten kinds, with different colours, places and sizes, on a noisy background."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % 10)
    # Shapes are brighter than their background in every colour, so that all of them can be seen.
    ground = random.integers(0, 120, (count, 3, 1, 1))
    paint = ground + random.integers(90, 136, (count, 3, 1, 1))
    size = random.uniform(7, 12, (count, 1, 1))
    centre = random.uniform(11, SIDE - 12, (2, count, 1, 1))
    axis = np.arange(SIDE)
    y, x = (axis[:, None] - centre[0]) / size, (axis[None, :] - centre[1]) / size
    inside = np.choose(labels[:, None, None], shape_masks(x, y))
    pixels = np.where(inside[:, None], paint, ground) + random.normal(0, 12, (count, 3, SIDE, SIDE))
    return pixels.clip(0, 255).astype(np.uint8), labels


def shape_masks(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return the ten shapes, each around the point 0, 0 and reaching from -1 to 1."""
    radius, reach = np.hypot(x, y), np.maximum(abs(x), abs(y))
    stripes_x, stripes_y = np.floor(x * 2.5) % 2 == 0, np.floor(y * 2.5) % 2 == 0
    return [
        radius < 1,
        (radius < 1) & (radius > 0.6),
        reach < 0.9,
        (reach < 0.9) & (reach > 0.55),
        (abs(x) < (y + 1) / 2) & (y < 1),
        (np.minimum(abs(x), abs(y)) < 0.3) & (reach < 1),
        (abs(abs(x) - abs(y)) < 0.35) & (reach < 1),
        stripes_x & (reach < 1),
        stripes_y & (reach < 1),
        (stripes_x ^ stripes_y) & (reach < 1),
    ]
