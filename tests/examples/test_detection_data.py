"""The readers of COCO and Penn-Fudan, and the generated scenes that replace the data sets."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image


@pytest.fixture
def data(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("fasterrcnn_coco_pytorch", "data")


def coco(**changes: Any) -> dict[str, Any]:
    return {
        "images": [
            {"id": 7, "file_name": "b.png", "height": 6, "width": 9},
            {"id": 3, "file_name": "a.png", "height": 6, "width": 9},
            {"id": 9, "file_name": "empty.png", "height": 6, "width": 9},
        ],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 44, "bbox": [1, 2, 3, 4], "iscrowd": 0},
            {"id": 2, "image_id": 3, "category_id": 18, "bbox": [0, 0, 2.5, 2], "iscrowd": 0},
            {"id": 3, "image_id": 7, "category_id": 18, "bbox": [5, 1, 2, 2]},
            {"id": 4, "image_id": 7, "category_id": 18, "bbox": [0, 0, 9, 6], "iscrowd": 1},
            {"id": 5, "image_id": 7, "category_id": 18, "bbox": [4, 4, 0, 2], "iscrowd": 0},
        ],
        "categories": [{"id": 44, "name": "bottle"}, {"id": 18, "name": "dog"}],
    } | changes


def write_coco(root: Path, content: dict[str, Any]) -> dict[str, str]:
    for name, value in (("a.png", 51), ("b.png", 102)):
        Image.new("RGB", (9, 6), (value, 0, 255)).save(root / name)
    (root / "instances.json").write_text(json.dumps(content))
    return {"source": "coco", "path": str(root), "annotations": str(root / "instances.json")}


def test_scenes_are_the_default(data: ModuleType) -> None:
    state = torch.get_rng_state(), np.random.get_state(legacy=False)
    scenes = data.load({})
    assert len(scenes) == 400
    sizes = set()
    for index in range(20):
        image, target = scenes[index]
        sizes.add(image.shape)
        height, width = image.shape[1:]
        assert len(target["boxes"]) == len(target["labels"]) >= 1
        left, top, right, bottom = target["boxes"].T
        assert ((left >= 0) & (left < right) & (right <= width)).all()
        assert ((top >= 0) & (top < bottom) & (bottom <= height)).all()
        assert 0 <= image.min() < image.max() <= 1
    assert len(sizes) > 10
    assert torch.equal(scenes[5][0], data.load({"source": "scenes"})[5][0])
    assert torch.equal(torch.get_rng_state(), state[0])
    np.testing.assert_equal(np.random.get_state(legacy=False), state[1])
    with pytest.raises(IndexError):
        scenes[400]


def test_the_split_ignores_the_global_generator(data: ModuleType) -> None:
    scenes = data.load({})
    torch.manual_seed(1)
    train, validation = data.split(scenes)
    torch.manual_seed(2)
    again, _ = data.split(scenes)
    assert train.indices == again.indices
    assert (len(train), len(validation)) == (320, 80)
    assert sorted([*train.indices, *validation.indices]) == list(range(400))


def test_collate(data: ModuleType) -> None:
    scenes = data.load({})
    images, targets = data.collate([scenes[0], scenes[1]])
    assert isinstance(images, tuple)
    assert isinstance(targets, tuple)
    assert images[0].shape != images[1].shape


def test_coco(data: ModuleType, tmp_path: Path) -> None:
    dataset = data.load(write_coco(tmp_path, coco()))
    assert len(dataset) == 2
    assert dataset.num_classes == 3
    image, target = dataset[0]
    assert image.shape == (3, 6, 9)
    torch.testing.assert_close(image[:, 0, 0], torch.tensor([0.2, 0, 1]))
    assert target["boxes"].tolist() == [[1, 2, 4, 6], [0, 0, 2.5, 2]]
    assert target["labels"].tolist() == [2, 1]
    assert target["area"].tolist() == [12, 5]
    assert dataset[1][1]["boxes"].tolist() == [[5, 1, 7, 3]]  # neither the crowd nor the empty box


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"annotations": [{"id": 8, "image_id": 1, "category_id": 44, "bbox": [0, 0, 1, 1]}]},
            "8 belongs to image 1,",
        ),
        (
            {"annotations": [{"id": 8, "image_id": 3, "category_id": 5, "bbox": [0, 0, 1, 1]}]},
            "8 has category 5,",
        ),
        ({"annotations": []}, "no image has an object"),
    ],
)
def test_damaged_coco(data: ModuleType, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.load(write_coco(tmp_path, coco(**changes)))


def test_coco_files_that_are_something_else(data: ModuleType, tmp_path: Path) -> None:
    config = write_coco(tmp_path, coco())
    path = Path(config["annotations"])
    path.write_text(path.read_text()[:50])
    with pytest.raises(ValueError, match=r"instances\.json: not a JSON file"):
        data.load(config)
    path.write_text('{"images": []}')
    with pytest.raises(ValueError, match="it has no annotations, categories"):
        data.load(config)
    path.write_text("[1]")
    with pytest.raises(ValueError, match="it has no annotations, categories, images"):
        data.load(config)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        data.load(config)


def test_images_that_cannot_be_read(data: ModuleType, tmp_path: Path) -> None:
    dataset = data.load(write_coco(tmp_path, coco()))
    (tmp_path / "a.png").write_bytes(b"not an image")
    (tmp_path / "b.png").unlink()
    with pytest.raises(ValueError, match=r"a\.png: cannot be read as an image"):
        dataset[0]
    with pytest.raises(FileNotFoundError, match=r"b\.png: the image is not there"):
        dataset[1]


def test_a_missing_pillow_is_named(data: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = data.load(write_coco(tmp_path, coco()))
    real = builtins.__import__

    def without_pillow(name: str, *rest: Any) -> ModuleType:
        if name == "PIL":
            raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(ModuleNotFoundError, match="pip install pillow"):
        dataset[0]


def test_penn_fudan(data: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "PNGImages").mkdir()
    (tmp_path / "PedMasks").mkdir()
    mask = np.zeros((8, 10), np.uint8)
    mask[1:4, 2:5] = 1
    mask[5:8, 7:10] = 2
    Image.new("RGB", (10, 8)).save(tmp_path / "PNGImages" / "FudanPed00001.png")
    Image.fromarray(mask).save(tmp_path / "PedMasks" / "FudanPed00001_mask.png")
    config = {"source": "penn-fudan", "path": str(tmp_path)}
    image, target = data.load(config)[0]
    assert image.shape == (3, 8, 10)
    assert target["boxes"].tolist() == [[2, 1, 5, 4], [7, 5, 10, 8]]
    assert target["labels"].tolist() == [1, 1]

    Image.fromarray(mask[:4]).save(tmp_path / "PedMasks" / "FudanPed00001_mask.png")
    with pytest.raises(ValueError, match="its size"):
        data.load(config)[0]
    Image.fromarray(mask * 0).save(tmp_path / "PedMasks" / "FudanPed00001_mask.png")
    with pytest.raises(ValueError, match="shows no pedestrian"):
        data.load(config)[0]
    (tmp_path / "PedMasks" / "FudanPed00001_mask.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"00001_mask\.png: not there, though its image is"):
        data.load(config)
    with pytest.raises(FileNotFoundError, match=r"no PNGImages/\*\.png"):
        data.load({"source": "penn-fudan", "path": str(tmp_path / "PedMasks")})


def test_configuration(data: ModuleType) -> None:
    for config, message in (
        ({"source": "voc"}, "scenes, coco or penn-fudan, got 'voc'"),
        ({"source": "penn-fudan"}, r"data\.path must name"),
        ({"source": "coco", "path": "here"}, r"data\.annotations must name"),
    ):
        with pytest.raises(ValueError, match=message):
            data.load(config)
    assert data.from_option("scenes") == {"source": "scenes"}
    assert data.from_option("ped") == {"source": "penn-fudan", "path": "ped"}
    assert data.from_option("a:b.json") == {"source": "coco", "path": "a", "annotations": "b.json"}
    with pytest.raises(ValueError, match=r"IMAGES:FILE\.json"):
        data.from_option("b.json")
