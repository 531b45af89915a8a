"""Boxes in plain torch: areas, overlaps, non-maximum suppression, and offsets between two sets of boxes.

A box is four numbers: left, top, right, bottom, in pixels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def areas(boxes: Tensor) -> Tensor:
    """Return the area of each box."""
    return (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Return the intersection over union of each box of `first` (rows) with each of `second` (columns)."""
    top_left = torch.maximum(first[:, None, :2], second[None, :, :2])
    bottom_right = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = (bottom_right - top_left).clamp(min=0).prod(dim=2)
    union = areas(first)[:, None] + areas(second)[None, :] - shared
    return shared / union.clamp(min=torch.finfo(union.dtype).tiny)


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Return the indices of the boxes to keep, best first: none overlaps a better one by more than `threshold`."""
    order = scores.argsort(descending=True)
    overlaps = (iou(boxes[order], boxes[order]) > threshold).cpu()
    kept: list[int] = []
    suppressed = torch.zeros(len(order), dtype=torch.bool)
    for place in range(len(order)):
        if not suppressed[place]:
            kept.append(place)
            suppressed |= overlaps[place]
    return order[torch.tensor(kept, dtype=torch.long, device=order.device)]


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """Return the part of each box that lies within an image."""
    limits = boxes.new_tensor([width, height, width, height])
    return torch.minimum(boxes.clamp(min=0), limits)


def encode(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Return boxes relative to their anchors: shifts in anchor sizes, logarithms of size ratios."""
    centre, size = split(boxes)
    anchor_centre, anchor_size = split(anchors)
    return torch.cat([(centre - anchor_centre) / anchor_size, (size / anchor_size).log()], dim=-1)


def decode(offsets: Tensor, anchors: Tensor) -> Tensor:
    """Return the boxes that `encode` would turn into these offsets."""
    centre, size = split(anchors)
    centre = centre + offsets[..., :2] * size
    # An untrained network may predict enormous boxes, whose exponentials would not be finite.
    half = size * offsets[..., 2:].clamp(max=math.log(62)).exp() / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def split(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Return centres and sizes."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2, (boxes[..., 2:] - boxes[..., :2]).clamp(min=1e-3)
