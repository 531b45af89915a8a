"""Object detection: images of different sizes, a dict of targets for each, and a schedule by epochs."""

from __future__ import annotations

from typing import Any

import boxes
import data
import torch
from detector import SmallFasterRCNN
from torch import nn
from torch.optim.lr_scheduler import StepLR

from determined import pytorch


class ObjectDetectionTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        dataset = data.load(data.settings(context))
        self.train_set, self.validation_set = data.split(dataset)
        self.model = context.wrap_model(build_model(context.get_hparam("backbone"), dataset.num_classes))
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(
                self.model.parameters(),
                lr=context.get_hparam("learning_rate"),
                momentum=context.get_hparam("momentum"),
                weight_decay=context.get_hparam("weight_decay"),
            )
        )
        context.wrap_lr_scheduler(
            StepLR(self.optimizer, step_size=3, gamma=0.1), pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH
        )

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(
            self.train_set,
            batch_size=self.context.get_per_slot_batch_size(),
            shuffle=True,
            collate_fn=data.collate,
        )

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(
            self.validation_set,
            batch_size=self.context.get_per_slot_batch_size(),
            collate_fn=data.collate,
        )

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        images, targets = batch
        losses = self.model(images, targets)
        loss = sum(losses.values())
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, **losses}

    def evaluate_batch(self, batch: Any) -> dict[str, torch.Tensor]:
        images, targets = batch
        found = self.model(images)
        overlaps = [best_overlaps(f, target) for f, target in zip(found, targets, strict=True)]
        return {"val_avg_iou": torch.cat(overlaps).mean()}


def best_overlaps(found: dict[str, torch.Tensor], target: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return how well each true box is covered by the best of the boxes found; zero where nothing was found."""
    kept = found["boxes"][boxes.nms(found["boxes"], found["scores"], 0.1)]
    if not len(kept):
        return torch.zeros(len(target["boxes"]), device=kept.device)
    return boxes.iou(target["boxes"], kept).max(dim=1).values


def build_model(backbone: str, num_classes: int) -> nn.Module:
    """Build the small detector of this directory, or torchvision's Faster R-CNN with weights pretrained on COCO."""
    if backbone == "small":
        return SmallFasterRCNN(num_classes)
    if backbone != "torchvision":
        raise ValueError(f"the hyperparameter backbone must be small or torchvision, got {backbone!r}")
    try:
        from torchvision.models import detection
    except (ImportError, RuntimeError) as error:  # a torchvision for another torch fails with RuntimeError
        raise ImportError(
            f"backbone: torchvision needs a torchvision that works with torch {torch.__version__}: {error}"
        ) from error
    model = detection.fasterrcnn_resnet50_fpn(weights=detection.FasterRCNN_ResNet50_FPN_Weights.DEFAULT)
    features = model.roi_heads.box_predictor.cls_score.in_features
    model.roi_heads.box_predictor = detection.faster_rcnn.FastRCNNPredictor(features, num_classes)
    return model
