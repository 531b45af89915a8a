"""The networks of the examples: their sizes, their shapes, and that they can learn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import nn

Load = Callable[[str, str], ModuleType]


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("shape", "count"), [((1, 28, 28), 1_199_882), ((1, 24, 24), 839_434), ((1, 16, 21), None)])
def test_mnist_fits_any_image(load: Load, shape: tuple[int, int, int], count: int | None) -> None:
    build_model = load("mnist_pytorch", "model").build_model
    model = build_model(shape, n_filters1=32, n_filters2=64, dropout1=0.25, dropout2=0.5)
    assert count is None or parameters(model) == count
    output = model(torch.rand(3, *shape))
    torch.testing.assert_close(output.exp().sum(dim=1), torch.ones(3))


def test_cifar10(load: Load) -> None:
    build_model = load("cifar10_pytorch", "model").build_model
    model = build_model(layer1_dropout=0.25, layer2_dropout=0.25, layer3_dropout=0.5)
    assert parameters(model) == 1_250_858
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 24, 24)])
@pytest.mark.parametrize("records", [1, 3])
def test_multi_output_keeps_the_batch_axis(load: Load, shape: tuple[int, int, int], records: int) -> None:
    model = load("mnist_multi_output_pytorch", "model").MultiNet(shape, n_filters1=4, n_filters2=6, dropout=0.5)
    predictions = model({"data": torch.rand(records, *shape)})
    assert predictions["binary_predictions"].shape == (records,)
    torch.testing.assert_close(predictions["digit_predictions"].exp().sum(dim=1), torch.ones(records))


def test_multi_output_linear_layer_at_mnist_size(load: Load) -> None:
    model = load("mnist_multi_output_pytorch", "model").MultiNet((1, 28, 28), n_filters1=40, n_filters2=40, dropout=0.5)
    assert model.trunk[7].in_features == 16 * 40


def test_gan(load: Load) -> None:
    module = load("gan_mnist_pytorch", "model")
    generator, discriminator = module.Generator((1, 28, 28)), module.Discriminator((1, 28, 28))
    images = generator(torch.randn(4, module.LATENT))
    assert images.shape == (4, 1, 28, 28)
    assert images.abs().max() <= 1
    assert discriminator(images).shape == (4,)
    assert discriminator(images[:1]).shape == (1,)
    widths = [layer.out_features for layer in generator.layers if isinstance(layer, nn.Linear)]
    assert widths == [128, 256, 512, 1024, 784]


def test_overlaps_and_suppression(load: Load) -> None:
    boxes = load("fasterrcnn_coco_pytorch", "boxes")
    some = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 20, 30, 30], [5, 5, 5, 9]])
    torch.testing.assert_close(boxes.iou(some[:2], some), torch.tensor([[1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.0, 0.0]]))
    scores = torch.tensor([0.5, 0.9, 0.1, 0.2])
    assert boxes.nms(some, scores, 0.4).tolist() == [1, 3, 2]
    assert boxes.nms(some, scores, 0.6).tolist() == [1, 0, 3, 2]
    assert boxes.nms(some[:0], scores[:0], 0.5).tolist() == []
    assert boxes.clip(torch.tensor([[-3.0, 2, 50, 90]]), height=40, width=30).tolist() == [[0, 2, 30, 40]]


def test_offsets_there_and_back(load: Load) -> None:
    boxes = load("fasterrcnn_coco_pytorch", "boxes")
    generator = torch.Generator().manual_seed(0)
    corners = torch.rand(2, 30, 2, generator=generator) * 50
    there, anchors = (torch.cat([c, c + 5 + 20 * torch.rand(30, 2, generator=generator)], 1) for c in corners)
    torch.testing.assert_close(boxes.decode(boxes.encode(there, anchors), anchors), there)
    assert boxes.decode(torch.full((1, 4), 1e6), anchors[:1]).isfinite().all()


def test_regions_are_pooled_from_where_they_are(load: Load) -> None:
    detector = load("fasterrcnn_coco_pytorch", "detector")
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(6.0), indexing="ij")
    features = torch.stack([columns + 0.5, rows + 0.5])[None] * detector.STRIDE  # each cell contains its centre
    region = torch.tensor([[8.0, 16.0, 32.0, 48.0], [16.0, 16.0, 17.0, 17.0]])
    pooled = detector.pool(features, region)
    assert pooled.shape == (2, 2, detector.POOLED, detector.POOLED)
    torch.testing.assert_close(pooled.mean(dim=(2, 3)), torch.tensor([[20.0, 32.0], [16.5, 16.5]]))
    assert (pooled[0, 0].diff(dim=1) > 0).all()
    assert (pooled[0, 1].diff(dim=0) > 0).all()


def test_anchors_surround_the_centres_of_the_cells(load: Load) -> None:
    detector = load("fasterrcnn_coco_pytorch", "detector")
    anchors = detector.anchors_of(2, 3, torch.device("cpu"))
    assert len(anchors) == 2 * 3 * len(detector.SIDES)
    centres = ((anchors[:, :2] + anchors[:, 2:]) / 2)[:: len(detector.SIDES)]
    assert centres.tolist() == [[4, 4], [12, 4], [20, 4], [4, 12], [12, 12], [20, 12]]


def test_detector_losses_reach_every_parameter(load: Load) -> None:
    # Also without any object: a parameter without a gradient would stop distributed training.
    model = load("fasterrcnn_coco_pytorch", "detector").SmallFasterRCNN(num_classes=3)
    image = torch.rand(3, 41, 70)
    empty = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.long)}
    full = {"boxes": torch.tensor([[5.0, 5, 25, 30]]), "labels": torch.tensor([2])}
    for targets in ((empty,), (full,)):
        model.zero_grad()
        losses = model((image,), targets)
        assert set(losses) == {"loss_objectness", "loss_rpn_box_reg", "loss_classifier", "loss_box_reg"}
        sum(losses.values()).backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        assert all(loss.isfinite() for loss in losses.values())
    with pytest.raises(ValueError, match="needs targets"):
        model((image,))


def test_detector_learns_one_image(load: Load) -> None:
    torch.manual_seed(0)
    model = load("fasterrcnn_coco_pytorch", "detector").SmallFasterRCNN(num_classes=3)
    boxes = load("fasterrcnn_coco_pytorch", "boxes")
    image, target = load("fasterrcnn_coco_pytorch", "data").load({})[0]
    target["labels"][:] = 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    for _ in range(60):
        optimizer.zero_grad()
        sum(model((image,), (target,)).values()).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        (found,) = model((image,))
    best = boxes.iou(target["boxes"], found["boxes"]).max(dim=1)
    assert best.values.min() > 0.6
    assert found["labels"][best.indices].tolist() == target["labels"].tolist()


def test_torchvision_is_asked_for_by_name(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    build_model = load("fasterrcnn_coco_pytorch", "model_def").build_model
    with pytest.raises(ValueError, match="small or torchvision, got 'resnet'"):
        build_model("resnet", 2)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ImportError, match="needs a torchvision that works with torch"):
        build_model("torchvision", 2)
