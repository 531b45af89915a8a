"""A fast program of a search, without torch: curves with a spike and NaN, colours, a crash where opt is "lion".

As long as the file SLOWLY exists, it is slow.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

import determined as det
from determined import core

LENGTH = 64
HOSTILE = "<script>document.title='hacked'</script> \"quoted\" 'single' \u202eright to left\u202c"


def train() -> None:
    info = det.get_cluster_info()
    assert info is not None
    hparams = info.trial.hparams
    slowly = Path(os.environ.get("SLOWLY", "/none"))
    with core.init() as context:
        done = saved = 0
        if info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(info.latest_checkpoint) as path:
                done = saved = json.loads((path / "state.json").read_text())["done"]
        print(f"\x1b[32mbegins\x1b[0m after batch {done} {HOSTILE}")  # noqa: T201
        print("10%|#\r55%|#####\r100%|##########")  # noqa: T201
        while done < LENGTH and not context.preempt.should_preempt():
            done += 1
            loss = abs(math.log10(hparams["lr"]) + 2) + 2 / done
            spike = 1000.0 if done == 30 else 0.0
            training = math.nan if done == 20 and hparams["layers"] == 2 else loss + spike
            context.train.report_training_metrics(done, {"loss": training, "rate": hparams["lr"], HOSTILE: done})
            print(f"\r{done} of {LENGTH}", end="", file=sys.stderr, flush=True)  # noqa: T201
            if hparams["opt"] == "lion" and done == 6:
                print(file=sys.stderr)  # noqa: T201
                raise ValueError(f"lion cannot roar with lr {hparams['lr']}: {HOSTILE}")
            if done % 4 == 0:
                print(f"batch {done}: loss {loss}")  # noqa: T201
                context.train.report_validation_metrics(
                    done, {"loss": loss, "accuracy": 1 / (1 + loss), "epochs": done / 16, "note": HOSTILE}
                )
            if done % 16 == 0:
                with context.checkpoint.store_path({"steps_completed": done}) as (path, _):
                    (Path(path) / "state.json").write_text(json.dumps({"done": done}))
                    saved = done
            if slowly.exists():
                time.sleep(0.2)
        print(file=sys.stderr)  # noqa: T201
        if done > saved:
            with context.checkpoint.store_path({"steps_completed": done}) as (path, _):
                (Path(path) / "state.json").write_text(json.dumps({"done": done}))


train()
