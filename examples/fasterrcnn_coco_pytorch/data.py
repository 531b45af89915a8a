"""Images with boxes: generated scenes (no download), a COCO instances file, or the layout of Penn-Fudan."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from determined import TrialContext

Target = dict[str, Tensor]


def settings(context: TrialContext) -> dict[str, Any]:
    """Return the `data` part of the experiment configuration; without a configuration that of the default data."""
    try:
        return context.get_data_config()
    except ValueError:
        return {}


def load(config: Mapping[str, Any]) -> Detections:
    """Return the images for the `data` part of a configuration."""
    source = config.get("source", "scenes")
    if source == "scenes":
        return Scenes(config.get("count", 400))
    if source not in ("coco", "penn-fudan"):
        raise ValueError(f"data.source must be scenes, coco or penn-fudan, got {source!r}")
    if "path" not in config:
        raise ValueError(f"data.source is {source}: data.path must name the directory of the images")
    if source == "penn-fudan":
        return PennFudan(config["path"])
    if "annotations" not in config:
        raise ValueError("data.source is coco: data.annotations must name the instances_*.json file")
    return Coco(config["path"], config["annotations"])


def from_option(option: str) -> dict[str, str]:
    """Return the `data` part of a configuration for --data: scenes, a Penn-Fudan directory, or IMAGES:FILE.json."""
    if option == "scenes":
        return {"source": "scenes"}
    if option.endswith(".json"):
        images, separator, annotations = option.rpartition(":")
        if not separator:
            raise ValueError(f"--data for COCO is IMAGES:FILE.json, got {option!r}")
        return {"source": "coco", "path": images, "annotations": annotations}
    return {"source": "penn-fudan", "path": option}


def collate(records: Sequence[tuple[Tensor, Target]]) -> tuple[tuple[Tensor, ...], tuple[Target, ...]]:
    """Return one batch: a tuple of images of different sizes and a tuple of their targets."""
    images, targets = zip(*records, strict=True)
    return images, targets


def split(dataset: Detections, share: float = 0.8, seed: int = 0) -> tuple[Subset[Any], Subset[Any]]:
    """Return training and validation images. A separate generator makes the split the same on every rank."""
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    border = int(share * len(order))
    return Subset(dataset, order[:border]), Subset(dataset, order[border:])


class Detections(Dataset[tuple[Tensor, Target]], ABC):
    """Pairs of an image (3 x height x width, 0..1) and its boxes; class 0 is the background."""

    num_classes = 2

    @abstractmethod
    def __len__(self) -> int:
        """The number of images."""

    def target(self, index: int, boxes: Any, labels: Any) -> Target:
        boxes = torch.as_tensor(boxes, dtype=torch.float32).reshape(-1, 4)
        return {
            "boxes": boxes,
            "labels": torch.as_tensor(labels, dtype=torch.long),
            "image_id": torch.tensor([index]),
            "area": (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]),
            "iscrowd": torch.zeros(len(boxes), dtype=torch.long),
        }


class Scenes(Detections):
    """One to three bright ellipses on a noisy background, in images of different sizes, drawn when they are read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Target]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        random = np.random.default_rng([index, 20])  # the image depends on its index alone
        height, width = (int(side) for side in random.integers(64, 97, 2))
        image = random.uniform(0, 0.5, (3, 1, 1)) + random.normal(0, 0.06, (3, height, width))
        y, x = np.mgrid[:height, :width] + 0.5
        boxes: list[tuple[float, float, float, float]] = []
        for _ in range(random.integers(1, 4)):
            half_width, half_height = random.uniform(7, 17, 2)
            centre_x = random.uniform(half_width, width - half_width)
            centre_y = random.uniform(half_height, height - half_height)
            edges = (
                centre_x - half_width,
                centre_y - half_height,
                centre_x + half_width,
                centre_y + half_height,
            )
            if any(overlapping(edges, other) for other in boxes):
                continue  # a hidden object could not be found
            inside = ((x - centre_x) / half_width) ** 2 + ((y - centre_y) / half_height) ** 2 < 1
            image = np.where(inside, random.uniform(0.55, 1, (3, 1, 1)), image)
            boxes.append(edges)
        pixels = torch.from_numpy(image.clip(0, 1).astype(np.float32))
        return pixels, self.target(index, boxes, [1] * len(boxes))


class Coco(Detections):
    """Images with an instances file of COCO's format. Crowds, and images without an object, are left out."""

    def __init__(self, root: str | Path, annotations: str | Path) -> None:
        self.root = Path(root)
        try:
            content = json.loads(Path(annotations).read_text())
        except ValueError as error:
            raise ValueError(f"{annotations}: not a JSON file: {error}") from error
        missing = {"images", "annotations", "categories"} - set(content if isinstance(content, dict) else ())
        if missing:
            raise ValueError(f"{annotations}: not a COCO instances file, it has no {', '.join(sorted(missing))}")
        # COCO's category ids have gaps; classes are counted from 1 without any.
        classes = {c["id"]: label for label, c in enumerate(sorted(content["categories"], key=by_id), start=1)}
        self.num_classes = len(classes) + 1
        self.images = sorted(content["images"], key=by_id)
        self.objects: dict[int, list[tuple[list[float], int]]] = {image["id"]: [] for image in self.images}
        for note in content["annotations"]:
            where = f"{annotations}: annotation {note.get('id')}"
            if note["image_id"] not in self.objects:
                raise ValueError(f"{where} belongs to image {note['image_id']}, which is not listed")
            if note["category_id"] not in classes:
                raise ValueError(f"{where} has category {note['category_id']}, which is not listed")
            left, top, width, height = note["bbox"]
            if width > 0 and height > 0 and not note.get("iscrowd", 0):
                edges = [left, top, left + width, top + height]
                self.objects[note["image_id"]].append((edges, classes[note["category_id"]]))
        self.images = [image for image in self.images if self.objects[image["id"]]]
        if not self.images:
            raise ValueError(f"{annotations}: no image has an object")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Target]:
        image = self.images[index]
        objects = self.objects[image["id"]]
        pixels = read_pixels(self.root / image["file_name"], "RGB")
        return as_image(pixels), self.target(index, [o[0] for o in objects], [o[1] for o in objects])


class PennFudan(Detections):
    """PNGImages/NAME.png with PedMasks/NAME_mask.png, where pixel value n belongs to the n-th pedestrian."""

    def __init__(self, root: str | Path) -> None:
        self.images = sorted((Path(root) / "PNGImages").glob("*.png"))
        if not self.images:
            raise FileNotFoundError(f"{root}: no PNGImages/*.png; data.path must name the unpacked PennFudanPed")
        self.masks = [Path(root) / "PedMasks" / f"{image.stem}_mask.png" for image in self.images]
        for mask in self.masks:
            if not mask.is_file():
                raise FileNotFoundError(f"{mask}: not there, though its image is")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Target]:
        pixels, mask = read_pixels(self.images[index], "RGB"), read_pixels(self.masks[index], None)
        if mask.shape != pixels.shape[:2]:
            raise ValueError(f"{self.masks[index]}: its size {mask.shape} is not its image's {pixels.shape[:2]}")
        if not mask.any():
            raise ValueError(f"{self.masks[index]}: shows no pedestrian")
        boxes = []
        for person in np.unique(mask[mask > 0]):
            rows, columns = np.nonzero(mask == person)
            boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        return as_image(pixels), self.target(index, np.array(boxes), [1] * len(boxes))


def by_id(entry: Mapping[str, Any]) -> Any:
    return entry["id"]


def overlapping(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two boxes overlap."""
    return all(min(one[end], other[end]) > max(one[end - 2], other[end - 2]) for end in (2, 3))


def read_pixels(path: Path, mode: str | None) -> np.ndarray:
    """Read an image file as an array."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading images needs Pillow: pip install pillow") from error
    try:
        with Image.open(path) as image:
            return np.array(image.convert(mode) if mode else image)
    except (UnidentifiedImageError, SyntaxError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"{path}: the image is not there") from error
        raise ValueError(f"{path}: cannot be read as an image: {error}") from error


def as_image(pixels: np.ndarray) -> Tensor:
    """Convert rows of bytes to planes of numbers from 0 to 1."""
    return torch.from_numpy(pixels.astype(np.float32) / 255).permute(2, 0, 1).contiguous()
