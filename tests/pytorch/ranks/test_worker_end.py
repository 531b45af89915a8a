"""Loader workers do not outlive the process that they load for (R12)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

PROGRAM = """
import os, sys, torch, torch.utils.data._utils.worker
torch.utils.data._utils.worker.MP_STATUS_CHECK_INTERVAL = 600.0  # when torch itself would look for the parent
from determined import pytorch
loader = pytorch.DataLoader(torch.arange(8.0), batch_size=2, num_workers=2, persistent_workers=True).get_data_loader()
for batch in loader:
    pass
print(*[worker.pid for worker in loader._iterator._workers], flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch's own watch must do, which takes five seconds")
def test_idle_workers_end_at_once_when_their_process_is_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Its directories of multiprocessing stay when it is killed. A short name: paths of sockets have at most 107 bytes.
    directory = tmp_path_factory.mktemp("w")
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TMPDIR": str(directory)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in program.stdout.readline().split()]
        assert len(workers) == 2
        program.send_signal(signal.SIGKILL)
        program.wait()
        _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
