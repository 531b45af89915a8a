"""The runner of trial classes, up to the moment it hands over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.helpers import warm


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [sys.executable, "-m", "determined.exec.harness", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_configuration_is_needed(tmp_path: Path) -> None:
    done = run("model_def:MyTrial", cwd=tmp_path)
    assert done.returncode == 2
    assert "--config" in done.stderr


def test_a_bad_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "const.yaml").write_text("a: 1\na: 2\n")
    done = run("model_def:MyTrial", "--config", "const.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "const.yaml:2" in done.stderr


def test_a_class_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "const.yaml").write_text("name: x\n")
    (tmp_path / "model_def.py").write_text("class Other: pass\n")
    done = run("model_def:MyTrial", "--config", "const.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "InvalidExperimentException: model_def.py has no class 'MyTrial'" in done.stderr.splitlines()[-1]
    bare = run("MyTrial", "--config", "const.yaml", cwd=tmp_path)
    assert "module:Class" in bare.stderr.splitlines()[-1]
