"""A script that fails with one optimizer, with a message that differs between trials, and above a learning rate."""

from __future__ import annotations

import sys

import determined as det
from determined import core


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    hparams = info.trial.hparams
    with core.init() as context:
        sys.stdout.write(f"begins with {hparams['opt']}\n")
        if hparams["opt"] == "lion":
            raise ValueError(f"step {info.trial.trial_id} of conv1 diverged at 0x7f{info.trial.trial_id:02x}")
        if hparams["lr"] > 0.5:
            raise RuntimeError("too fast")
        context.train.report_validation_metrics(1, {"loss": hparams["lr"]})


if __name__ == "__main__":
    main()
