"""A trial that records when it begins and when it is requested to save."""

import os
import time
from pathlib import Path

import determined as det
from determined import core

info = det.get_cluster_info()
assert info is not None
place = Path(info.trial.hparams["place"]) / f"{info.trial.trial_id}-{os.getpid()}"
with core.init() as context:
    for step in range(1, 100_000):
        if step == 1:
            place.write_text(str(time.time()))
        time.sleep(0.05)
        context.train.report_training_metrics(step, {"loss": 1 / step})
        if context.preempt.should_preempt():
            place.with_name(f"saving-{place.name}").write_text(str(time.time()))
            break
