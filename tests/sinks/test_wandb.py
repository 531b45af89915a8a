"""Weights & Biases' own client: with a small server, and in offline mode with the file that it writes."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers.waiting import PATIENCE_SECONDS, wait_for_end, wait_until
from tests.sinks.resuming import PROGRAM, run_twice
from tests.sinks.wandb_server import served

if importlib.util.find_spec("wandb") is None:
    pytest.skip("Weights & Biases' client is not installed: pip install wandb", allow_module_level=True)

_BLOCK, _HEADER = 32768, 7
_WHOLE, _LAST = 1, 4


def records(file: Path) -> Iterator[Any]:
    """Return the records of the file, a log in blocks as LevelDB writes it: a header, and pieces of records, none
    across two blocks.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, pieces = file.read_bytes(), _HEADER, b""
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        length, kind = struct.unpack_from("<4xHB", data, at) if left >= _HEADER else (0, 0)
        if kind == 0:
            at += left
            continue
        pieces += data[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length
        if kind in (_WHOLE, _LAST):
            yield Record.FromString(pieces)
            pieces = b""


def rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of the history."""
    found = [record.history for record in records(file) if record.HasField("history")]
    return [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in row.item} for row in found]


def offline_files(data_home: Path) -> list[Path]:
    return sorted(data_home.rglob("*.wandb"), key=lambda file: file.stat().st_mtime)


def test_a_resumed_trial_is_one_run_with_each_step_once(tmp_path: Path) -> None:
    with served() as (address, runs):
        first, second = run_twice(
            tmp_path, DET_SINKS="wandb", WANDB_BASE_URL=address, WANDB_API_KEY="a" * 40, WANDB_ENTITY="me"
        )
    (run,) = runs.values()
    assert [row["steps_completed"] for row in run.rows if "training/loss" in row] == list(range(1, 9))
    assert [row["steps_completed"] for row in run.rows if "validation/loss" in row] == [5, 8]
    assert [row["checkpoint/uuid"] for row in run.rows if "checkpoint/uuid" in row] == [first, second]
    assert run.exit_codes == [0, 0]
    assert run.summary["determined/state"] == "completed"


def test_offline_a_resumed_trial_keeps_its_id(tmp_path: Path, data_home: Path) -> None:
    first, second = run_twice(tmp_path, DET_SINKS="wandb", WANDB_MODE="offline")
    files = offline_files(data_home)
    runs = [record.run for file in files for record in records(file) if record.HasField("run")]
    assert len({run.run_id for run in runs}) == 1
    assert [(run.project, run.display_name, list(run.tags)) for run in runs] == [
        ("my-lines", "my lines-1", ["small", "odd/name"])
    ] * 2
    config = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert config["lr"] == 0.1
    assert config["net"] == {"width": 8, "api_key": "********"}
    steps = [[row["steps_completed"] for row in rows(file) if "training/loss" in row] for file in files]
    assert steps == [[1, 2, 3, 4, 5], [4, 5, 6, 7, 8]]
    assert [row["checkpoint/uuid"] for file in files for row in rows(file) if "checkpoint/uuid" in row] == [
        first,
        second,
    ]
    told = [file.read_bytes() for file in data_home.rglob("wandb/**/*") if file.is_file()]
    assert not any(b"s3cr3t" in content for content in told)


def test_its_process_does_not_outlive_ours(tmp_path: Path) -> None:
    """The process is killed while the run is open."""
    waiting = PROGRAM.replace("print(uuid)", "    input()")
    env = {**os.environ, "START": "0", "END": "5", "DET_SINKS": "wandb", "WANDB_MODE": "offline"}
    with subprocess.Popen(
        [sys.executable, "-c", waiting], env=env, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        service = _first_child(process.pid)
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        wait_for_end(service.pid)


def test_a_server_that_never_answers_neither_stops_nor_fails_the_program(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = {"START": "0", "END": "5", "DET_SINKS": "wandb", "WANDB_BASE_URL": address, "WANDB_API_KEY": "a" * 40}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, **env},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    assert "6 reports were not sent to wandb: it did not answer in time (all reports are in the store)" in done.stderr
    assert "Traceback" not in done.stderr


def _first_child(pid: int) -> psutil.Process:
    def found() -> list[psutil.Process]:
        return [child for child in psutil.Process(pid).children() if child.name() == "wandb-core"]

    return wait_until(found, "no process of the client was started")[0]
