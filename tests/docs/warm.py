"""Run programs in processes that have imported the library already: most of a short program's time is that import."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from pathlib import Path


def run(program: Path, data_home: Path) -> None:
    """Run a program by itself, in its own directory, and fail with what it said if it fails."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["determined.pytorch", "torch._dynamo"]
    )  # the second: imported by the first optimizer
    output = program.with_suffix(".output")
    process = context.Process(target=_main, args=(program, data_home, output))
    process.start()
    process.join(120)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert process.exitcode == 0, f"{program} ended with code {process.exitcode}:\n{output.read_text()}"


def _main(program: Path, data_home: Path, output: Path) -> None:
    os.environ["XDG_DATA_HOME"] = str(data_home)
    os.chdir(program.parent)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(descriptor, stream.fileno())
    sys.argv = [str(program)]
    sys.path.insert(0, str(program.parent))
    runpy.run_path(str(program), run_name="__main__")
