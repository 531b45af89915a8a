"""Fixtures of the tests of the examples: their modules, and runs of their programs."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from tests.helpers import leaks, records, warm

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], ModuleType]]:
    """Import a module of an example. All examples have a `data`, so none stays in `sys.modules`."""
    before = dict(sys.modules)

    def forget() -> None:
        for name, module in list(sys.modules.items()):
            if name not in before and str(EXAMPLES) in str(getattr(module, "__file__", "")):
                del sys.modules[name]

    def load_module(example: str, module: str) -> ModuleType:
        forget()
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(EXAMPLES / example))
            with leaks.shared(variables=True):  # scikit-learn sets some
                return importlib.import_module(module)

    yield load_module
    forget()


@dataclass(frozen=True)
class Run:
    """A finished program: what it printed, and the data directory that it wrote to."""

    output: str
    data_dir: Path

    @property
    def checkpoints(self) -> list[Path]:
        return [path.parent for path in self.data_dir.glob("checkpoints/*/state_dict.pth")]

    def values(self, group: str, metric: str) -> list[float]:
        """Return all values of one metric that the newest run reported, in order, over all attempts of its trial."""
        with records.opened(self.data_dir.parent) as store:
            newest = store.runs(limit=1)[0]
            return [row.metrics[metric] for row in store.metrics(newest.trial_id, group)]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Run]:
    """Run a program in an example's directory as a user would, on one or several processes."""

    def run_program(example: str, *arguments: str, processes: int = 1, command: list[str] | None = None) -> Run:
        command = command or [sys.executable, "train.py", "--seed", "1", *arguments]
        if processes > 1:
            launcher = "determined.launch.torch_distributed"
            command = [sys.executable, "-m", launcher, f"--nproc_per_node={processes}", "--", *command]
        env = os.environ | {"XDG_DATA_HOME": str(tmp_path)}
        # A copy: in this repository the project of the program, which each run copies, would be the repository.
        directory = tmp_path / "examples" / example
        shutil.copytree(EXAMPLES / example, directory, dirs_exist_ok=True)
        done = warm.run(command, cwd=directory, env=env, text=True, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return Run(done.stdout + done.stderr, tmp_path / "determined")

    return run_program
