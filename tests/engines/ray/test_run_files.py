"""TensorBoard files on their way from a node to the runner's machine."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from determined.engines.ray import run_files
from determined.engines.ray.run_files import GrowingFiles, write_part
from determined.errors import EngineError


def new_run(runs: Path, pid: int) -> Path:
    run = runs / f"20260101T000000Z-{pid}-abcdef"
    (run / "tensorboard").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    return run


def names(events: list[list[Any]]) -> list[str]:
    return [event[1].partition("/")[2] for event in events]


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_files_of_runs_that_ended_are_not_checked_any_more(tmp_path: Path) -> None:
    files = GrowingFiles(tmp_path, seconds_after_end=0.0)
    ended, running = new_run(tmp_path, ended_process()), new_run(tmp_path, os.getpid())
    for run in (ended, running):
        (run / "tensorboard" / "events").write_text("1")
    assert names(files.new_parts([])) == ["run.json", "tensorboard/events"] * 2
    assert files.new_parts([]) == []
    for run in (ended, running):
        (run / "tensorboard" / "late").write_text("2")
    assert [event[1] for event in files.new_parts([])] == [f"{running.name}/tensorboard/late"]
    assert {name.partition("/")[0] for name in files._sent} == {running.name}


def test_runs_of_other_nodes_end_with_the_jobs_that_may_write_to_them(tmp_path: Path) -> None:
    files = GrowingFiles(tmp_path, seconds_after_end=0.0)
    run = new_run(tmp_path, os.getpid())
    (run / "run.json").unlink()  # written by rank 0, on its node
    (run / "tensorboard" / "events").write_text("1")
    assert names(files.new_parts(["1.1.1", "1.2.1"])) == ["tensorboard/events"]
    assert files.new_parts(["1.2.1"]) == []
    (run / "tensorboard" / "late").write_text("2")
    assert names(files.new_parts(["1.2.1", "1.3.1"])) == ["tensorboard/late"]
    assert files.new_parts(["1.3.1"]) == []
    (run / "tensorboard" / "too late").write_text("3")
    assert files.new_parts(["1.3.1"]) == []


def test_a_look_has_a_limit_of_bytes_and_the_rest_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "_CHUNK", 4)
    monkeypatch.setattr(run_files, "_MOST_BYTES", 8)
    run = new_run(tmp_path / "node", os.getpid())
    (run / "tensorboard" / "events").write_bytes(bytes(range(30)))
    files = GrowingFiles(tmp_path / "node")
    while events := files.new_parts([]):
        assert sum(len(base64.b64decode(event[3])) for event in events) <= 8 + 4
        for event in events:
            write_part(tmp_path / "runner", *event[1:])
    copied = tmp_path / "runner" / run.name / "tensorboard" / "events"
    assert copied.read_bytes() == bytes(range(30))


def test_named_pipes_and_links_are_left_out(tmp_path: Path) -> None:
    run = new_run(tmp_path, os.getpid())
    os.mkfifo(run / "tensorboard" / "pipe")
    (run / "tensorboard" / "link").symlink_to("/etc/passwd")
    assert names(GrowingFiles(tmp_path).new_parts([])) == ["run.json"]


def test_a_file_that_cannot_be_written_is_given_up_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tensorboard").write_text("not a directory")
    content = base64.b64encode(b"x").decode()
    with caplog.at_level(logging.WARNING):
        write_part(tmp_path, "run/tensorboard/events", 0, content)
        write_part(tmp_path, "run/tensorboard/events", 1, content)
    assert len([record for record in caplog.records if "not copied" in record.message]) == 1
    with pytest.raises(EngineError):
        write_part(tmp_path, "run/../events", 0, content)
