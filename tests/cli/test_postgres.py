"""`det` with a PostgreSQL server as its store."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.running import DET, det, det_json
from tests.helpers.postgres import PASSWORD, running_server


def test_a_search_on_a_server_that_is_restarted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One URL is all that is set. Who runs it and who waits for it outlive the restart; the password is never shown."""
    with running_server() as server:
        monkeypatch.setenv("DET_STORE", server.new_database())
        slow = ["--config", "hyperparameters.seconds=0.1", "--slots", "2"]
        with subprocess.Popen(
            [*DET, "e", "create", "config.yaml", "model", *slow],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as runner:
            assert runner.stdout is not None
            for line in runner.stdout:
                if "started" in line:
                    break
            waiting = [*DET, "e", "wait", "1", "--polling-interval", "0.1"]
            following = [*DET, "e", "logs", "1", "--all", "--follow"]
            watchers = [
                subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for words in (waiting, following)
            ]
            followed = watchers[1].stdout
            assert followed is not None
            first = followed.readline()
            server.stop()
            away = det("e", "ls")
            assert away.exit_code == 1
            assert away.stderr.startswith("Failed to list experiments: the store postgresql://det:****")
            server.start()
            printed, errors = runner.communicate(timeout=100)
        assert runner.returncode == 0, errors
        log = first + followed.read()  # not by communicate: it knows nothing of what readline has read ahead
        followed.close()
        result, _ = watchers[0].communicate(timeout=60)
        assert [watcher.wait(timeout=60) for watcher in watchers] == [0, 0], (result, log)
        assert result == "Experiment 1: COMPLETED\n"
        assert log.count("hello from the trial") == 4
        assert [row["state"] for row in det_json("e", "ls")] == ["COMPLETED"]
        for text in (printed, errors, away.stderr, result, log):
            assert PASSWORD not in text
            assert "s3cr3t" not in text
