"""A script that resumes where it stopped, and is slow as long as the file that SLOWLY names exists."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import determined as det
from determined import core

LENGTH = 100


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    lr, seed = info.trial.hparams["lr"], info.trial.trial_seed
    slowly = Path(os.environ.get("SLOWLY", "/none"), str(info.trial.experiment_id))
    with core.init() as context:
        done = saved = 0
        if info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(info.latest_checkpoint) as path:
                done = saved = json.loads((path / "state.json").read_text())["done"]
        while done < LENGTH and not context.preempt.should_preempt():
            done += 1
            context.train.report_validation_metrics(done, {"loss": lr + 1 / (done + seed % 7)})
            if slowly.exists():
                time.sleep(0.5)
        if done > saved:
            with context.checkpoint.store_path({"steps_completed": done}) as (path, _):
                Path(path / "state.json").write_text(json.dumps({"done": done}))


main()
