"""The time that `det` takes is measured; whether it is short enough depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.cases.commanding import LISTINGS

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.thorough
def test_the_bench_case_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "--smoke", "--only", "cli", "--results", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=120)
    (kept,) = tmp_path.glob("*.json")
    rows = json.loads(kept.read_text())["rows"]
    assert [row["must_be"] for row in rows] == ["<= 0.15 s", *["<= 0.50 s"] * len(LISTINGS)]
    assert all(row["us"] > 0 for row in rows)
