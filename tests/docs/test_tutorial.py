"""The commands of the tutorial are executed one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.following import follow

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
INSTALLED = "<!-- The tests begin here. -->"


@pytest.mark.timeout(600)  # a dozen programs, one after the other
def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    follow(PAGE.partition(INSTALLED)[2], tmp_path / "reader")


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_tutorial_works_from_a_fresh_clone(tmp_path: Path) -> None:
    """With `make demo` before it, in the environment that it creates."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True, timeout=120)
    subprocess.run(["make", "demo", f"PYTHON={sys.executable}"], cwd=clone, check=True, timeout=1500)
    follow(PAGE.partition(INSTALLED)[2], tmp_path / "reader", bin_directory=clone / ".venv" / "bin")
