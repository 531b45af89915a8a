"""Runs commands of `det`, each in a fork of one process that has loaded them all, so that many take a second.

with Forking() as forking:     result = forking.det("experiment", "list", environment={"DET_STORE": place})
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    """The exit code of a command, and its output."""

    code: int
    stdout: str
    stderr: str


class Forking:
    """The process that commands are forked from."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.forking"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Forking:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def det(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        cwd: Path,
        output: Literal["kept", "full", "closed"] = "kept",
    ) -> Result:
        """Run a command; its standard output may also be a full disk, or closed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "state_home": os.environ["XDG_STATE_HOME"],  # of this test; the process was started for the complete module
            "cwd": str(cwd),
            "output": output,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Result(**json.loads(self._process.stdout.readline()))


def _serve() -> None:
    from determined.cli.groups import LazyGroup
    from determined.cli.main import main

    assert isinstance(main, LazyGroup)
    _load(main)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def _load(group: Any) -> None:
    """Load what commands import when they run, where it takes long."""
    import click

    from determined.cli.groups import LazyGroup

    for name in group.commands_in:
        command = group.get_command(click.Context(group), name)
        if isinstance(command, LazyGroup):
            _load(command)
    for module in (
        "store.open",
        "store.store",
        "store.databases.sqlite",
        "config.experiment",
        "experiment.creation.create",
    ):
        importlib.import_module(f"determined.{module}")


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        pid = os.fork()
        if pid == 0:
            _become(request, stdout.fileno(), stderr.fileno())
        _, status = os.waitpid(pid, 0)
        stdout.seek(0)
        stderr.seek(0)
        return {"code": os.waitstatus_to_exitcode(status), "stdout": stdout.read(), "stderr": stderr.read()}


def _become(request: dict[str, Any], stdout: int, stderr: int) -> NoReturn:
    """Run a command in the fork, which never returns to the loop of its parent."""
    code = 70
    try:
        code = _run(request, stdout, stderr)
    except Exception:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(request: dict[str, Any], stdout: int, stderr: int) -> int:
    from determined.cli.main import main

    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(stdout if request["output"] != "full" else os.open("/dev/full", os.O_WRONLY), 1)
    os.dup2(stderr, 2)
    if request["output"] == "closed":  # as Python finds and shows it when it starts
        os.close(1)
        sys.stdout = None
    os.environ.update(request["environment"])
    os.environ["XDG_STATE_HOME"] = request["state_home"]
    os.chdir(request["cwd"])
    try:
        main(request["arguments"], prog_name="det")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    _serve()
