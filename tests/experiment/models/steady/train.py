"""A script that resumes where it stopped, step by step, slowly enough to be interrupted."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import determined as det
from determined import core


def main(seconds: float, length: int) -> None:
    info = det.get_cluster_info()
    assert info is not None
    lr, seed = info.trial.hparams["lr"], info.trial.trial_seed
    with core.init() as context:
        done = 0
        if info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(info.latest_checkpoint) as path:
                done = json.loads((path / "state.json").read_text())["done"]
        with Path("starts.txt").open("a") as starts:  # the working directory is the same for all starts of a trial
            starts.write(f"{info.latest_checkpoint} {done} {info.trial._steps_completed}\n")
        done = saved = info.trial._steps_completed  # 0 with the checkpoint of another trial
        while done < length:
            time.sleep(seconds)
            done += 1
            loss = lr + 1 / (done + seed % 7)
            context.train.report_validation_metrics(done, {"loss": loss, "batches": done})
            if context.preempt.should_preempt():
                break
        if done > saved:
            save(context, done)


def save(context: core.Context, done: int) -> None:
    with context.checkpoint.store_path({"steps_completed": done}) as (path, _):
        Path(path / "state.json").write_text(json.dumps({"done": done}))


main(float(sys.argv[1]), int(sys.argv[2]))
