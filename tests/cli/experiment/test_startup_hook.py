"""Messages of `det` about a startup hook, and how it is skipped."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from determined.store.store import Store
from tests.cli.det_command import DET, det, det_json, det_ok, run_det
from tests.helpers.waiting import wait_for_text

CREATE = ["experiment", "create", "config.yaml", "model"]


def test_a_dry_run_announces_the_hook_and_runs_nothing(project: Path, data_home: Path) -> None:
    (project / "model" / "startup-hook.sh").write_text(f"touch {project}/ran\n")
    place = str(data_home / "determined" / "experiments" / "<key>" / "startup-hook" / "venv")
    planned = det_ok(*CREATE, "--dry-run")
    assert f"Startup hook: startup-hook.sh runs once for this experiment, in the virtual environment {place}" in planned
    assert "It is not a sandbox" in planned
    assert det_json(*CREATE, "--dry-run")["startup_hook_environment"] == place
    for options in (["--no-startup-hook"], ["--config", "startup_hook=false"]):
        assert det_json(*CREATE, "--dry-run", *options)["startup_hook_environment"] is None
        assert "Startup hook" not in det_ok(*CREATE, "--dry-run", *options)
    (project / "model" / ".detignore").write_text("startup-hook.sh\n")
    assert det_json(*CREATE, "--dry-run")["startup_hook_environment"] is None
    assert not (project / "ran").exists()


def test_create_announces_the_hook_or_skips_it(
    project: Path, store: Store, data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "model" / "startup-hook.sh").write_text(f"echo run >> {project}/ran\n")
    created = det(*CREATE, "--paused", "--json")
    assert created.exit_code == 0, created.output
    said = created.stderr.splitlines()
    (venv,) = data_home.glob("determined/experiments/*/startup-hook/venv")
    assert said[0].startswith(f"startup-hook.sh runs once for this experiment, in the virtual environment {venv}: ")
    assert said[1].startswith("startup-hook.sh succeeded after ")
    assert det(*CREATE, "--paused", "--no-startup-hook").stderr == ""
    forked = det("experiment", "fork", "2", "--paused")
    assert (forked.exit_code, forked.stderr) == (0, "")  # like the one from which it was forked
    monkeypatch.setenv("DET_STARTUP_HOOK", "0")
    assert det(*CREATE, "--paused").stderr == ""
    assert (project / "ran").read_text() == "run\n"
    found = [store.experiments.get(number).config["startup_hook"] for number in (1, 2, 3, 4)]
    assert found == [True, False, False, False]


def test_a_failing_hook_is_named_and_nothing_is_created(project: Path, store: Store, data_home: Path) -> None:
    (project / "model" / "startup-hook.sh").write_text("echo first\necho 'no such package' >&2\nexit 4\n")
    for options in (["--paused"], []):
        failed = run_det(*CREATE, *options)
        assert failed.returncode == 1
        assert "startup-hook.sh failed with exit code 4: no such package\n" in failed.stderr
        assert "Its last lines:\n    first\n    no such package" in failed.stderr
        assert "Traceback" not in failed.stderr
    assert store.experiments.list() == []
    assert list((data_home / "determined" / "experiments").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_hook_leaves_nothing(project: Path, data_home: Path, number: signal.Signals) -> None:
    (project / "model" / "startup-hook.sh").write_text(f"sleep 600 &\necho $! > {project}/pid\nwait\n")
    with subprocess.Popen([*DET, *CREATE, "--paused"], stderr=subprocess.PIPE, text=True) as creating:
        assert creating.stderr is not None
        wait_for_text(project / "pid")
        creating.send_signal(number)
        assert creating.wait(30) == 128 + number, creating.stderr.read()
    assert list((data_home / "determined" / "experiments").iterdir()) == []
    assert not psutil.pid_exists(int((project / "pid").read_text()))


def test_det_run_has_what_the_hook_installs(project: Path, data_home: Path) -> None:
    """This includes the program itself, which is not known before; the hook works in the directory of the user."""
    (project / "startup-hook.sh").write_text(
        'printf "#!/bin/sh\\necho installed, \\$WORD, \\$(command -v python)\\n" > "$VIRTUAL_ENV/bin/new-program"\n'
        'chmod +x "$VIRTUAL_ENV/bin/new-program"\nexport WORD=exported\necho said by the hook\ntouch here\n'
    )
    done = run_det("run", "new-program")
    assert done.returncode == 0, done.stderr
    (venv,) = data_home.glob("determined/experiments/*/startup-hook/venv")
    assert done.stdout == f"installed, exported, {venv}/bin/python\n"
    assert done.stderr.startswith("startup-hook.sh runs once for this experiment")
    assert "said by the hook" in done.stderr
    assert (project / "here").exists()
    refused = run_det("run", "--no-startup-hook", "new-program")
    assert refused.returncode == 1
    assert "new-program: there is no such program" in refused.stderr
