"""A program that writes hostile text wherever a program can: metrics, output, metadata, checkpoints, its error."""

from __future__ import annotations

import sys
from pathlib import Path

from text import HOSTILE, LONG  # type: ignore[import-not-found]  # beside this file

import determined as det
from determined import core


def train() -> None:
    info = det.get_cluster_info()
    assert info is not None
    with core.init() as context:
        context.train.set_metadata({HOSTILE: LONG})
        print(LONG)  # noqa: T201
        print("M" * 1_000_000)  # noqa: T201
        print(f"WARNING: {HOSTILE}", file=sys.stderr)  # noqa: T201
        for step in range(1, 5):
            context.train.report_training_metrics(
                step, {"loss": 1 / step, HOSTILE: step, "N" * 5000: -step, f"text {HOSTILE}": LONG, "list": [LONG, 1]}
            )
            context.train.report_metrics("group " + HOSTILE.replace(".", ""), step, {"value": step})
            context.train.report_validation_metrics(step, {"loss": 1 / step, "note": HOSTILE})
        with context.checkpoint.store_path({"steps_completed": 4, HOSTILE: LONG, "nested": {HOSTILE: [HOSTILE]}}) as (
            path,
            _,
        ):
            (Path(path) / "<u data-hostile>\u202e'file\".bin").write_bytes(b"1")
        if info.trial.trial_id == 2:
            raise ValueError(LONG)


train()
