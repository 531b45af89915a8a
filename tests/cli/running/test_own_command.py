"""The commands that `det` suggests at the end work as printed, also in a virtual environment that is not active."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("is_on_path", [True, False])
def test_suggested_commands_work_as_printed(is_on_path: bool, project: Path) -> None:
    (project / "environment").symlink_to(BIN)  # the program is started by a relative path, as `make demo` does
    environment = {**os.environ, "PATH": f"{BIN}:/usr/bin:/bin" if is_on_path else "/usr/bin:/bin"}

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=120)

    done = run("environment/det experiment create config.yaml model --slots 1")
    assert done.returncode == 0, done.stderr
    suggested = [line.strip() for line in done.stdout.partition("To look closer:\n")[2].splitlines()]
    assert suggested
    program = "det" if is_on_path else "environment/det"
    assert all(line.startswith(f"{program} experiment ") for line in suggested)
    again = run(suggested[0])
    assert again.returncode == 0, again.stderr
