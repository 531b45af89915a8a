"""`det` with a PostgreSQL server as its store."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.det_command import WARM_DET, det, det_json
from tests.helpers import warm
from tests.helpers.postgres import PASSWORD, running_server


@pytest.mark.thorough
def test_a_search_on_a_server_that_is_restarted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the URL is set. The processes that run and follow it survive the restart; the password is never shown."""
    with running_server() as server:
        monkeypatch.setenv("DET_STORE", server.new_database())
        slow = ["--config", "hyperparameters.seconds=0.1", "--slots", "2"]
        runner = _start("create", "config.yaml", "model", *slow)
        started = next(line for line in _lines(runner) if "started" in line)
        follower = _start("logs", "1", "--all", "--follow")
        first = next(_lines(follower))
        server.stop()
        away = det("e", "ls")
        assert away.exit_code == 1
        assert away.stderr.startswith("Cannot list the experiments: the store postgresql://det:****")
        server.start()
        waiting = _start("wait", "1", "--polling-interval", "0.1")
        printed, log, result = (_rest(process) for process in (runner, follower, waiting))
        assert [process.wait(timeout=60) for process in (runner, follower, waiting)] == [0, 0, 0], (
            printed,
            log,
            result,
        )
        assert result == "Experiment 1: COMPLETED\n"
        assert (first + log).count("hello from the trial") == 4
        assert [row["state"] for row in det_json("e", "ls")] == ["COMPLETED"]
        (compared,) = det_json("e", "compare", "1")["contenders"]
        assert [step for step, _ in compared["curve"]] == [4, 8, 12, 16]
        bundle = _gathered("1")
        assert bundle.count("hello from the trial") == 1
        for text in (started, printed, away.stderr, first, log, result, bundle):
            assert PASSWORD not in text
            assert "s3cr3t" not in text


def _gathered(trial: str) -> str:
    """Return all texts in a support bundle."""
    with tarfile.open(det_json("t", "support-bundle", trial)["path"]) as archive:
        files = [archive.extractfile(member) for member in archive.getmembers()]
        return "".join(file.read().decode() for file in files if file is not None)


def _start(*words: str) -> subprocess.Popen[str]:
    return warm.Popen([*WARM_DET, "e", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout.readline, "")


def _rest(process: subprocess.Popen[str]) -> str:
    """Return all remaining output; `communicate` would miss lines that were buffered with those before."""
    assert process.stdout is not None
    with process.stdout:
        return process.stdout.read()
