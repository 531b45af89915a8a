"""Train the CIFAR-10 network as a standalone script."""

from __future__ import annotations

import argparse
from pathlib import Path

import data
from model_def import CIFARTrial

from determined import pytorch
from determined.config.reading.load import load_yaml


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--batches", type=int, default=630, help="how long to train (default: %(default)s)")
    length.add_argument("--epochs", type=int, help="the same in epochs")
    parser.add_argument("--data", metavar="SOURCE", help="shapes, or a directory of CIFAR-10's .bin files")
    parser.add_argument("--seed", type=int, help="the same seed gives the same training")
    args = parser.parse_args()

    config = load_yaml(Path(__file__).with_name("const.yaml"))
    if args.data:
        config["data"] |= data.from_option(args.data)

    with pytorch.init(hparams=config["hyperparameters"], exp_conf=config, seed=args.seed) as context:
        trainer = pytorch.Trainer(CIFARTrial(context), context)
        trainer.fit(
            max_length=pytorch.Epoch(args.epochs) if args.epochs else pytorch.Batch(args.batches),
            validation_period=pytorch.Epoch(1),
            reporting_period=pytorch.Batch(20),
            checkpoint_policy="none",  # one checkpoint, at the end
        )
        if context.distributed.rank == 0:
            print(f"Metrics and TensorBoard files: {context.get_tensorboard_path().parent}")


if __name__ == "__main__":
    main()
