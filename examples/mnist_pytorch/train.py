"""Train on images of handwritten digits with the Trainer."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import data
import torch
from model import build_model
from torch.nn import functional as F

import determined as det
from determined import pytorch
from determined.config.reading.load import load_yaml
from determined.paths import checkpoints_dir, store_place
from determined.store.databases.location import shown


class MNistTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext, hparams: dict[str, Any]) -> None:
        self.context = context
        self.summary = Summary()
        self.train_set, self.validation_set = data.load(data.settings(context))
        layers = {name: hparams[name] for name in ("n_filters1", "n_filters2", "dropout1", "dropout2")}
        self.model = context.wrap_model(build_model(self.train_set.shape, **layers))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adadelta(self.model.parameters(), lr=hparams["learning_rate"])
        )

    def build_training_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(self.train_set, batch_size=batch_size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
        return {"summary": self.summary}

    def train_batch(self, batch: pytorch.TorchData, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        images, labels = batch
        loss = F.nll_loss(self.model(images), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: pytorch.TorchData) -> dict[str, torch.Tensor]:
        images, labels = batch
        output = self.model(images)
        return {
            "validation_loss": F.nll_loss(output, labels),
            "accuracy": (output.argmax(dim=1) == labels).float().mean(),
        }


class Summary(pytorch.PyTorchCallback):
    """Collects what the closing lines print."""

    accuracy = float("nan")
    checkpoint = ""

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        self.accuracy = float(metrics["accuracy"])

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        self.checkpoint = uuid


def tell(summary: Summary, context: pytorch.PyTorchTrialContext, args: argparse.Namespace) -> None:
    tensorboard = context.get_tensorboard_path()
    script = [sys.executable, sys.argv[0], *(["--data", args.data] if args.data else [])]
    launcher = [sys.executable, "-m", "determined.launch.torch_distributed", "--nproc_per_node=2", "--"]
    next_commands = [
        [sys.executable, "-m", "tensorboard.main", "--logdir", str(tensorboard)],
        [*script, "--epochs", str(2 * args.epochs), "--resume", summary.checkpoint],
        [*launcher, *script],
    ]
    print(
        f"\nValidation accuracy: {summary.accuracy:.1%}"
        f"\nCheckpoint:          {checkpoints_dir() / summary.checkpoint}"
        f"\nMetrics:             {shown(store_place())}"
        f"\nTensorBoard files:   {tensorboard}"
        "\n\nWhat to type next, to see the curves, to train on, to train on two processes:",
        *map(shlex.join, next_commands),
        sep="\n  ",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=int, default=8, help="how long to train (default: %(default)s)")
    length.add_argument("--max-batches", type=int, metavar="N", help="stop after N batches instead")
    parser.add_argument("--data", metavar="SOURCE", help="digits, fashion-mnist, or a directory of IDX files")
    parser.add_argument("--resume", metavar="UUID", help="resume from this checkpoint")
    parser.add_argument("--seed", type=int, help="the same seed gives the same training")
    args = parser.parse_args()

    config = load_yaml(Path(__file__).with_name("const.yaml"))
    if args.data:
        config["data"] |= data.from_option(args.data)
    info = det.get_cluster_info()  # None unless an experiment started this process with its own hyperparameters
    hparams = info.trial.hparams if info else config["hyperparameters"]

    with pytorch.init(hparams=hparams, exp_conf=config, seed=args.seed) as context:
        trial = MNistTrial(context, hparams)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(
            max_length=pytorch.Batch(args.max_batches) if args.max_batches else pytorch.Epoch(args.epochs),
            validation_period=pytorch.Epoch(1),
            searcher_metric=config["searcher"]["metric"],  # the best validations are followed by a checkpoint
            latest_checkpoint=info.latest_checkpoint if info else args.resume,
        )
        if context.distributed.rank == 0:
            tell(trial.summary, context, args)


if __name__ == "__main__":
    main()
