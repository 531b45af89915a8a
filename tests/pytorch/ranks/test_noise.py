"""Other programs send data to the ports of a running job: none of their code runs, and the job completes."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import socket
from pathlib import Path

import psutil

from tests.soak.lives import SECONDS_FOR_A_PHASE, Life, reaches_phase, release


class Touch:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.file}",)


def ports_of(pid: int) -> list[int]:
    found = psutil.Process(pid).net_connections(kind="inet")
    return [one.laddr.port for one in found if one.status == psutil.CONN_LISTEN]


def test_noise_and_pickles_at_every_port(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    hostile = pickle.dumps(Touch(canary))
    noise = random.Random(0).randbytes(4096)
    framed = len(hostile).to_bytes(8, "little") + hostile
    http = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nnull"
    life = Life(tmp_path / "job", ranks=2, is_warm=True)
    with life.started("batch:5", 0) as processes:
        assert reaches_phase(processes[0]), life.errors()
        ports = {port for process in processes for port in ports_of(process.pid)}
        assert ports
        for port in sorted(ports):
            for message in (noise, hostile, framed, http, b""):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as line:
                    line.sendall(message)
                    line.shutdown(socket.SHUT_WR)
        release(processes[0])
        codes = [process.wait(timeout=SECONDS_FOR_A_PHASE) for process in processes]
    assert codes == [0, 0], life.errors()
    assert not canary.exists()
