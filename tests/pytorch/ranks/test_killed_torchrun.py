"""torchrun is killed, and not its workers: they must not train on without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.helpers.waiting import alive, wait_for_end, wait_for_text

PROGRAM = """
import pathlib, os, time
from determined import core

with core.init(distributed=core.DistributedContext.from_torch_distributed()) as context:
    pathlib.Path(f"rank-{context.distributed.rank}").write_text(str(os.getpid()))
    while True:
        time.sleep(1)
"""


def test_its_workers_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--standalone", "--nproc-per-node=2", f"--log-dir={tmp_path / 'logs'}"]
    command = [sys.executable, "-m", "torch.distributed.run", *options, "program.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as torchrun:
        workers: list[int] = []
        try:
            workers = [int(wait_for_text(tmp_path / f"rank-{rank}")) for rank in range(2)]
            torchrun.kill()
            wait_for_end(*workers)
        finally:
            torchrun.kill()
            for worker in alive(workers):
                os.kill(worker, signal.SIGKILL)
