"""A program that resumes at an earlier step, so that some steps are reported twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os
from determined import core
from determined.core.initialize import open_run

start, end = int(os.environ["START"]), int(os.environ["END"])
conf = {
    "name": "my lines",
    "labels": ["small", "odd/name"],
    "description": "what for",
    "environment": {"environment_variables": ["SOME_TOKEN=s3cr3t"]},
}
hparams = {"lr": 0.1, "net": {"width": 8, "api_key": "s3cr3t"}}
with open_run(hparams=hparams, exp_conf=conf) as context:
    context.begin_attempt(checkpoint=os.environ.get("CHECKPOINT"), steps_completed=start)
    for step in range(start + 1, end + 1):
        context.train.report_training_metrics(step, {"loss": 1 / step, "by class": {"a@b": step}})
    context.train.report_validation_metrics(end, {"loss": float("nan")})
    with context.checkpoint.store_path({"steps_completed": end}) as (path, uuid):
        (path / "state").write_text("x")
print(uuid)
"""


def run_twice(directory: Path, **env: str) -> tuple[str, str]:
    """Run five steps, then from the third to the eighth; return the names of both checkpoints."""
    first = _run(directory, START="0", END="5", **env)
    return first, _run(directory, START="3", END="8", CHECKPOINT=first, **env)


def _run(directory: Path, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--token", "s3cr3t"],
        env={**os.environ, **env},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "not sent" not in done.stderr, done.stderr
    return done.stdout.splitlines()[-1]
