"""Write docs/det.svg: a picture of a terminal with a small search and its best trials.

    python -m tools.recording

The commands are executed in a temporary directory, and the picture shows their output.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).resolve().parents[1] / "docs" / "det.svg"
COLUMNS = 100
TITLE = "det"

PROGRAM = """
import determined as det
from determined import core

hparams = det.get_cluster_info().trial.hparams
with core.init() as context:
    for epoch in range(1, 17):
        loss = (hparams["lr"] - 0.03) ** 2 * 100 + 4 / (hparams["width"] * epoch)
        context.train.report_validation_metrics(epoch, {"loss": loss, "epochs": epoch})
    with context.checkpoint.store_path({"steps_completed": 16}) as (path, _):
        (path / "weights").write_text("...")
"""
CONFIG = """
name: digits
entrypoint: python3 train.py
hyperparameters:
  lr: {type: log, base: 10, minval: -3, maxval: -1}
  width: {type: int, minval: 8, maxval: 64}
searcher: {name: adaptive_asha, metric: loss, time_metric: epochs, max_time: 16, max_trials: 8}
reproducibility: {experiment_seed: 7}
"""
COMMANDS = ["det experiment create config.yaml . --slots 2 | tail -n 12", "det experiment list-trials 1 --top 5"]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "train.py").write_text(PROGRAM)
        (directory / "config.yaml").write_text(CONFIG)
        printed = [(command, _printed(command, directory)) for command in COMMANDS]
    with open(os.devnull, "w") as nothing:
        console = Console(record=True, width=COLUMNS, file=nothing, force_terminal=True)
        for command, output in printed:
            console.print(Text(f"$ {command}", style="bold"))
            console.print(Text.from_ansi(output.replace(str(directory), "~").replace("\r\n", "\n").rstrip("\n")))
            console.print()
        # A fixed id keeps the file the same when nothing has changed.
        TARGET.write_text(console.export_svg(title=TITLE, unique_id="det"))


def _printed(command: str, directory: Path) -> str:
    """Return what a command prints on a terminal, and raise if it fails."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DET_DATA_DIR": str(directory / "data"),
        "COLUMNS": str(COLUMNS),
        "TZ": "UTC",
    }
    with subprocess.Popen(command, shell=True, cwd=directory, env=environment, stdout=theirs) as process:
        os.close(theirs)
        output = b""
        try:
            while chunk := os.read(ours, 65536):
                output += chunk
        except OSError:  # how Linux reports that the other side was closed
            pass
        finally:
            os.close(ours)
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}: {output.decode()}")
    return output.decode()


if __name__ == "__main__":
    main()
