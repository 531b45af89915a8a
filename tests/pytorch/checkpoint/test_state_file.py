"""Files whose hash is computed while they are written, bypassing the system's cache."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from determined.pytorch.checkpoint.state_file import StateFile
from tests.helpers import warm

MEGABYTE = 2**20


def written(path: Path, chunks: list[bytes]) -> str:
    with StateFile(path) as file:
        for chunk in chunks:
            assert file.write(chunk) == len(chunk)
    return file.digest


@settings(max_examples=30)
@given(st.lists(st.sampled_from([0, 1, 7, 64, 4095, 4096, 4097, MEGABYTE, 8 * MEGABYTE, 9 * MEGABYTE + 5]), max_size=5))
def test_a_written_file_has_its_content_and_hash(sizes: list[int]) -> None:
    chunks = [bytes([number % 251 + 1]) * size for number, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        digest = written(path, chunks)
        content = b"".join(chunks)
        assert path.read_bytes() == content
        assert digest == hashlib.sha256(content).hexdigest()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no file system in memory at /dev/shm")
def test_a_file_system_without_direct_writes() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        path = Path(directory) / "file"
        digest = written(path, [b"abc", b"d" * MEGABYTE])
        assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.stat().st_size == 3 + MEGABYTE


def test_a_limit_is_reported_with_the_systems_message(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from determined.pytorch.checkpoint.state_file import StateFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_001, 1_000_001))\n"
        "try:\n"
        "    with StateFile(Path(sys.argv[1])) as file:\n"
        "        file.write(bytes(20_000_000))\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )
    said = warm.run([sys.executable, "-c", program, tmp_path / "file"], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout == f"{errno.EFBIG}\n"


def test_an_error_of_the_writer_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="mine"), StateFile(tmp_path / "file"):
        raise ValueError("mine")
    assert len(os.listdir("/proc/self/fd")) == before
