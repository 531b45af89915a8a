"""`det tensorboard start` in a separate process, with requests over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from determined.cli.tensorboard.start import chosen_trials
from determined.store.store import Store
from tests.cli.det_command import DET, det
from tests.cli.searched import Searched
from tests.helpers.waiting import PATIENCE_SECONDS, wait_until


@contextmanager
def started(*words: str, end: signal.Signals, code: int) -> Iterator[tuple[dict[str, Any], list[psutil.Process]]]:
    """Start it; return its output and its processes. A signal ends it with this exit code."""
    old_options = ["--config-file", "tensorboard.yaml", "--config", "idle_timeout=5m"]  # accepted, and ignored
    command = [*DET, "tensorboard", "start", *words, "--no-browser", "--json", *old_options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            printed = json.loads(process.stdout.readline())
            own = psutil.Process(process.pid)
            yield printed, [own, *own.children(recursive=True)]
            process.send_signal(end)
            assert process.wait(timeout=30) == code
        finally:
            process.kill()


def runs_at(url: str, count: int) -> list[str]:
    """Wait until TensorBoard has read N runs."""

    def runs() -> list[str]:
        with urllib.request.urlopen(f"{url}data/runs", timeout=60) as answer:
            found: list[str] = json.load(answer)
        return found if len(found) >= count else []

    return sorted(wait_until(runs, f"TensorBoard has not read {count} runs"))


@pytest.mark.parametrize(
    ("words", "runs", "end", "code"),
    [
        (["1"], ["experiment_1/trial_1", "experiment_1/trial_2"], signal.SIGTERM, 143),
        (["-t", "2"], ["experiment_1/trial_2"], signal.SIGINT, 0),
    ],
)
def test_the_runs_are_shown_on_loopback(
    searched: Searched,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    runs: list[str],
    end: signal.Signals,
    code: int,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with started(*words, end=end, code=code) as (printed, processes):
        assert printed["url"].startswith("http://127.0.0.1:")
        assert sorted(printed["directories"]) == runs
        assert all(searched.home in Path(path).parents for path in printed["directories"].values())
        assert runs_at(printed["url"], len(runs)) == runs
        sockets = [one for process in processes for one in process.net_connections("inet") if one.status == "LISTEN"]
        assert {one.laddr.ip for one in sockets} <= {"127.0.0.1", "::1"}
    assert psutil.wait_procs(processes[1:], timeout=PATIENCE_SECONDS)[1] == []
    assert not any(process.is_running() for process in processes)
    assert list(tmp_path.glob("det-tensorboard-*")) == []
    assert len(list(searched.home.rglob("*tfevents*"))) == 2


def test_the_best_trials_come_first(searched: Searched, store: Store) -> None:
    best = searched.best
    assert [trial.id for trial in chosen_trials(store, [1], [])] == [best, 3 - best]
    assert [trial.id for trial in chosen_trials(store, [1], [3 - best])] == [3 - best, best]


def test_what_is_refused(searched: Searched) -> None:
    assert det("tensorboard", "start").exit_code == 2
    for words, missing in (
        (["7"], "Experiment 7 not found"),
        (["-t", "7"], "Trial 7 not found"),
        (["1", "-t", "1", "7"], "Trial 7 not found"),
    ):
        result = det("tensorboard", "start", *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert missing in result.stderr
    assert det("e", "delete-tb-files", "1", "--yes").exit_code == 0
    assert "have no TensorBoard files on this machine" in det("tensorboard", "start", "1").stderr
