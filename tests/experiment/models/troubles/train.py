"""A script with the failure that its hyperparameters name, in its second step."""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import sys
import time
from pathlib import Path

import determined as det
from determined import core


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    hparams = info.trial.hparams
    with Path("starts.txt").open("a") as starts:  # the working directory is the same for all starts of a trial
        starts.write(f"{info.trial._trial_run_id}\n")
    with core.init() as context:
        for step in range(1, 5):
            trouble = hparams["trouble"] if step == 2 else "none"
            make_trouble(trouble)
            context.train.report_validation_metrics(step, {"batches": step, **metrics(hparams)})
            if context.preempt.should_preempt():
                return


def metrics(hparams: dict[str, object]) -> dict[str, float]:
    loss = float(str(hparams.get("loss", 0.5)))
    odd = {"nan": math.nan, "inf": math.inf, "minus_inf": -math.inf}.get(str(hparams["trouble"]), loss)
    return {"another": odd} if hparams["trouble"] == "no_metric" else {"loss": odd}


def make_trouble(trouble: str) -> None:
    if trouble == "raise":
        raise RuntimeError("the second step failed")
    if trouble == "segfault":
        ctypes.string_at(0)
    if trouble == "exit_3":
        sys.exit(3)
    if trouble == "exit_0":
        sys.exit(0)
    if trouble == "hard_exit_0":
        os._exit(0)
    if trouble in ("hang", "killed", "ignore"):
        note_pid()
        time.sleep(600)
    if trouble == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        hold(2**31)
    if trouble == "fork":
        leave_children()
    if trouble == "invalid_hp":
        raise det.InvalidHP("no such learning rate")


def note_pid() -> None:
    """Write the id of this process to a file, atomically, so that a test finds the process."""
    draft = Path(".pid")
    draft.write_text(str(os.getpid()))
    draft.rename("pid.txt")


def hold(size: int) -> None:
    bytearray(size)


def leave_children() -> None:
    """Start two processes that outlive their parent, one in a separate session; both ignore SIGTERM and SIGINT."""
    for separate in (False, True):
        if os.fork() == 0:
            if separate:
                os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(60)


main()
