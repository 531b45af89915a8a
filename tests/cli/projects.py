"""A minimal program and its configuration for a search."""

from __future__ import annotations

PROGRAM = """
import time
import determined as det
from determined import core

hparams = det.get_cluster_info().trial.hparams
with core.init() as context:
    print("hello from the trial", flush=True)
    for batch in range(1, 17):
        time.sleep(hparams["seconds"])
        if batch % 4 == 0:
            loss = (hparams["lr"] - 0.3) ** 2 + 1 / batch
            context.train.report_validation_metrics(batch, {"loss": loss, "batches": batch})
            with context.checkpoint.store_path({"steps_completed": batch}) as (path, _):
                (path / "weights").write_text(str(batch))
        if context.preempt.should_preempt():
            break
"""
CONFIG = """
name: tiny
entrypoint: python3 train.py
hyperparameters:
  lr: {type: double, minval: 0.0, maxval: 1.0}
  seconds: 0.0
searcher: {name: adaptive_asha, metric: loss, time_metric: batches, max_time: 16, max_trials: 4}
reproducibility: {experiment_seed: 1}
"""
