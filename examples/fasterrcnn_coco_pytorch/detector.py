"""A small Faster R-CNN in plain torch: a backbone, a region proposal network, and a head that classifies regions.

It is called as torchvision's detectors are: in training with images and targets, for a dict of losses; otherwise with
images alone, for a list of dicts of `boxes`, `labels` and `scores`.
"""

from __future__ import annotations

from collections.abc import Sequence

import boxes as box
import torch
from torch import Tensor, nn
from torch.nn import functional as F

STRIDE = 8  # pixels of the image per cell of the backbone's map
SIDES = (12.0, 24.0, 48.0)  # of the square anchors around each cell's centre
POOLED = 5  # cells per side of the pooled region that the head gets


class SmallFasterRCNN(nn.Module):
    """Finds objects of `num_classes - 1` kinds; class 0 is the background."""

    def __init__(self, num_classes: int, width: int = 64, proposals: int = 32) -> None:
        super().__init__()
        self.proposals = proposals
        self.backbone = nn.Sequential(*stage(3, width // 4), *stage(width // 4, width // 2), *stage(width // 2, width))
        self.region = nn.Conv2d(width, width, kernel_size=3, padding=1)
        self.objectness = nn.Conv2d(width, len(SIDES), kernel_size=1)
        self.region_offsets = nn.Conv2d(width, 4 * len(SIDES), kernel_size=1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(width * POOLED**2, 128), nn.ReLU())
        self.classes = nn.Linear(128, num_classes)
        self.box_offsets = nn.Linear(128, 4)
        for layer in (self.objectness, self.region_offsets, self.classes, self.box_offsets):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)

    def forward(
        self, images: Sequence[Tensor], targets: Sequence[dict[str, Tensor]] | None = None
    ) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        if not self.training:
            return [self.detect(image) for image in images]
        if targets is None:
            raise ValueError("a detector in training mode needs targets beside its images")
        losses = [self.losses(image, target) for image, target in zip(images, targets, strict=True)]
        return {name: torch.stack([loss[name] for loss in losses]).mean() for name in losses[0]}

    def losses(self, image: Tensor, target: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the four losses of one image, under the names that torchvision gives them."""
        features, anchors, objectness, offsets = self.propose(image)
        wanted, nearest, overlap = match(anchors, target["boxes"])
        positive = overlap >= 0.5
        if len(target["boxes"]):
            # The best anchor of each object counts too, however little they overlap.
            positive[box.iou(target["boxes"], anchors).argmax(dim=1)] = True
        sampled = sample(positive, overlap < 0.3)
        loss_objectness = F.binary_cross_entropy_with_logits(objectness[sampled], positive[sampled].float())
        loss_rpn_box_reg = offset_loss(offsets[positive], wanted[positive], anchors[positive])

        # The true boxes are proposals as well: the head has something to learn from the first batch on.
        regions = self.best_regions(image, anchors, objectness, offsets)
        regions = torch.cat([regions, target["boxes"]])
        wanted, nearest, overlap = match(regions, target["boxes"])
        positive = overlap >= 0.5
        labels = torch.where(positive, target["labels"][nearest], 0) if len(target["boxes"]) else nearest
        logits, offsets = self.judge(features, regions)
        return {
            "loss_objectness": loss_objectness,
            "loss_rpn_box_reg": loss_rpn_box_reg,
            "loss_classifier": F.cross_entropy(logits, labels),
            "loss_box_reg": offset_loss(offsets[positive], wanted[positive], regions[positive]),
        }

    def detect(self, image: Tensor) -> dict[str, Tensor]:
        """Return the objects in one image, best first."""
        features, anchors, objectness, offsets = self.propose(image)
        regions = self.best_regions(image, anchors, objectness, offsets)
        logits, offsets = self.judge(features, regions)
        scores, labels = logits.softmax(dim=1)[:, 1:].max(dim=1)
        found = box.clip(box.decode(offsets, regions), *image.shape[1:])
        kept = box.nms(found, scores, 0.5)
        return {"boxes": found[kept], "labels": labels[kept] + 1, "scores": scores[kept]}

    def propose(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the backbone's map; for each anchor its box, a logit that an object is there, and offsets to it."""
        features = self.backbone(image[None])
        hidden = F.relu(self.region(features))
        rows, columns = features.shape[2:]
        # One row per anchor: down the image, then across, then through the sides.
        objectness = self.objectness(hidden)[0].permute(1, 2, 0).reshape(-1)
        offsets = self.region_offsets(hidden)[0].permute(1, 2, 0).reshape(-1, 4)
        return features, anchors_of(rows, columns, image.device), objectness, offsets

    @torch.no_grad()
    def best_regions(self, image: Tensor, anchors: Tensor, objectness: Tensor, offsets: Tensor) -> Tensor:
        """Return the most promising regions, few of them overlapping much."""
        scores, best = objectness.topk(min(4 * self.proposals, len(objectness)))
        regions = box.clip(box.decode(offsets[best], anchors[best]), *image.shape[1:])
        return regions[box.nms(regions, scores, 0.7)[: self.proposals]]

    def judge(self, features: Tensor, regions: Tensor) -> tuple[Tensor, Tensor]:
        """Return class logits and better offsets for each region."""
        hidden = self.head(pool(features, regions))
        return self.classes(hidden), self.box_offsets(hidden)


def stage(channels: int, wider: int) -> list[nn.Module]:
    """Return layers that halve the map. Group norm, unlike batch norm, works with one image at a time."""
    return [
        nn.Conv2d(channels, wider, kernel_size=3, stride=2, padding=1),
        nn.GroupNorm(8, wider),
        nn.ReLU(),
        nn.Conv2d(wider, wider, kernel_size=3, padding=1),
        nn.GroupNorm(8, wider),
        nn.ReLU(),
    ]


def anchors_of(rows: int, columns: int, device: torch.device) -> Tensor:
    """Return squares of all sides around the centre of every cell."""
    y = (torch.arange(rows, device=device) + 0.5) * STRIDE
    x = (torch.arange(columns, device=device) + 0.5) * STRIDE
    centres = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], dim=-1).reshape(-1, 1, 2)
    half = torch.tensor(SIDES, device=device).reshape(1, -1, 1) / 2
    return torch.cat([centres - half, centres + half], dim=-1).reshape(-1, 4)


def match(candidates: Tensor, truth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each candidate the true box it overlaps most, that box's index, and the overlap."""
    if not len(truth):
        none = torch.zeros(len(candidates), dtype=torch.long, device=candidates.device)
        return candidates, none, none.float()
    overlap, nearest = box.iou(candidates, truth).max(dim=1)
    return truth[nearest], nearest, overlap


def sample(positive: Tensor, negative: Tensor, negatives: int = 48) -> Tensor:
    """Return the indices of all positives and of some negatives, because most of an image is background."""
    others = (negative & ~positive).nonzero().squeeze(1)
    chosen = torch.randperm(len(others), device=others.device)[:negatives]
    return torch.cat([positive.nonzero().squeeze(1), others[chosen]])


def offset_loss(offsets: Tensor, wanted: Tensor, anchors: Tensor) -> Tensor:
    """Return the loss of the offsets to the true boxes; zero, with its graph, if there are none."""
    distance = F.smooth_l1_loss(offsets, box.encode(wanted, anchors), reduction="sum", beta=1 / 9)
    return distance / max(len(offsets), 1)


def pool(features: Tensor, regions: Tensor) -> Tensor:
    """Sample the map at a grid of points within each region of any size (RoI align)."""
    steps = (torch.arange(POOLED, device=regions.device) + 0.5) / POOLED
    x = regions[:, None, 0] + steps * (regions[:, None, 2] - regions[:, None, 0])
    y = regions[:, None, 1] + steps * (regions[:, None, 3] - regions[:, None, 1])
    rows, columns = features.shape[2:]
    # grid_sample counts from -1 at one edge of the map to 1 at the other.
    x, y = 2 * x / (columns * STRIDE) - 1, 2 * y / (rows * STRIDE) - 1
    grid = torch.stack([x[:, None, :].expand(-1, POOLED, -1), y[:, :, None].expand(-1, -1, POOLED)], dim=-1)
    # All regions sample the same map, so they are stacked as rows of one tall grid.
    sampled = F.grid_sample(features, grid.reshape(1, -1, POOLED, 2), align_corners=False)
    return sampled.reshape(features.shape[1], -1, POOLED, POOLED).transpose(0, 1)
