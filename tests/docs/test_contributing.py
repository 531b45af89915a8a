"""CONTRIBUTING.md: its steps, carried out in a copy of the sources, add a searcher, a storage type, a sink and more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGS = {"searcher": "repeat", "storage type": "home", "sink": "json_file"}
CONFIG = """
entrypoint: python3 -c pass
searcher: {name: repeat, metric: loss, max_trials: 5}
checkpoint_storage: {type: home, below: mine}
sinks: {json_file: {path: all.jsonl}}
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}
"""
PROGRAM = """
from determined import core

with core.init(checkpoint_storage={"type": "home"}) as context:
    context.train.report_training_metrics(1, {"loss": 0.5})
    with context.checkpoint.store_path({"steps_completed": 1}) as (path, _):
        (path / "weights").write_text("1")
"""
SEARCH = """
from determined.config.experiment import load_experiment
from determined.searchers.build import build
from determined.searchers.simulate import Behaviour, simulate

config = load_experiment("config.yaml").config
search = build(config.searcher, config.hyperparameters, 7)
trace = simulate(search, lambda create: Behaviour(metric=lambda time: 1.0, ends_at=10), slots=2)
created = [action for actions in trace.decisions.values() for action in actions]
print(len(created), len({action.seed for action in created}), len({str(action.hparams) for action in created}))
"""
REFERENCE = """
import runpy

for tool in ("reference", "api_table", "modules"):
    runpy.run_module(f"tools.{tool}", run_name="__main__")
"""


@dataclass(frozen=True)
class Step:
    """A numbered step of a section: its text and its code, empty if it has none."""

    number: int
    text: str
    code: str


def steps(section: str) -> list[Step]:
    """Return the steps of "## Add a …"."""
    (body,) = re.findall(
        rf"^## Add an? {section}$(.*?)(?=^## |\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S
    )
    found = []
    for number, item in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^\S|\Z)", body, re.M | re.S):
        text, _, rest = item.partition("```")
        code = textwrap.dedent(rest.partition("\n")[2].partition("   ```")[0])
        found.append(Step(int(number), " ".join(text.split()), code))
    assert [step.number for step in found] == list(range(1, len(found) + 1))
    return found


class Checkout:
    """A copy of the repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.has_command = False
        for name in ("src", "docs", "tests", "tools"):
            shutil.copytree(ROOT / name, root / name)  # with the compiled files, which stay valid
        for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "Makefile"):
            shutil.copy(ROOT / name, root)
        (root / "config.yaml").write_text(CONFIG)

    def carry_out(self, step: Step) -> Path | None:
        """Carry out a step. Return the file that it creates, if it creates one."""
        if made := re.match(r"New file `([^`]+)`", step.text):
            path = self.root / made[1]
            path.write_text(step.code)
            return path
        if line := re.match(r"One line in `(\w+)` of `([^`]+)`", step.text):
            self._edit(
                line[2],
                rf"(?ms)^({line[1]}\b[^\n]*= [\[{{]\n.*?)^([\]}}])",
                lambda found: f"{found[1]}{indented(step.code)}{found[2]}",
            )
        elif line := re.match(r"One line after `([^`]+)` in `([^`]+)`", step.text):
            self._edit(line[2], rf"(?m)^({re.escape(line[1])}\b.*\n)", lambda found: f"{found[1]}{step.code}")
        elif row := re.match(r"A row in the table of `([^`]+)`", step.text):
            self._edit(row[1], r"(?m)((?:^\|.*\n)+)", lambda found: f"{found[1]}{step.code}")
        elif name := re.match(
            r"The name in the row (?:`([\w.]+)`|of sinks) of `([^`]+)`(?: \(`([\w.]+)`\))?", step.text
        ):
            start = name[1] or "sinks.mlflow"
            added = name[3] or PLUGS[{"searcher.name": "searcher", "checkpoint_storage.type": "storage type"}[start]]
            self._edit(name[2], rf"(?m)^(\| `{re.escape(start)}`.*)$", lambda found: f"{found[1]} `{added}` |")
        else:
            assert step.text.startswith(("`make reference`", "Pass it to the runner")), step.text
        return None

    def _edit(self, name: str, pattern: str, new: Callable[[re.Match[str]], str]) -> None:
        path = self.root / name
        text, count = re.subn(pattern, new, path.read_text(), count=1)
        assert count == 1, f"{name} has no place for this"
        path.write_text(text)

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DET_"))}
        places = {"XDG_DATA_HOME": self.root / "data", "XDG_STATE_HOME": self.root / "state", "HOME": self.root}
        places["TMPDIR"] = self.root.parent
        ours = {name: str(path) for name, path in {**places, "PYTHONPATH": self.root / "src"}.items()}
        environment = {**inherited, **ours, **variables}
        return subprocess.run(
            [sys.executable, *command], cwd=self.root, env=environment, capture_output=True, text=True, timeout=300
        )

    def write_reference(self) -> None:
        """Write the reference, as `make reference` does."""
        # One interpreter for all three: each of them imports torch.
        written = self.run("-c", REFERENCE)
        assert written.returncode == 0, written.stderr

    def check(self, *tests: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *tests)


def indented(code: str) -> str:
    return "".join(f"    {line.strip()}\n" for line in code.splitlines())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("checkout"))


@pytest.mark.timeout(600)
def test_one_file_and_one_line_add_a_searcher_a_storage_type_and_a_sink(checkout: Checkout) -> None:
    files = [checkout.carry_out(step) for plug in PLUGS for step in steps(plug)[:2]]
    assert len([file for file in files if file is not None]) == len(PLUGS)

    previewed = checkout.run("-m", "determined.cli", "preview-search", "config.yaml", "--json")
    assert previewed.returncode == 0, previewed.stderr
    assert json.loads(previewed.stdout)["trials"] == 5
    searched = checkout.run("-c", SEARCH)
    assert searched.stdout.split() == ["5", "5", "1"], searched.stderr  # trials, seeds, sets of hyperparameters
    for _ in range(2):
        trained = checkout.run("-c", PROGRAM, DET_SINKS="json_file", DET_RUN_NAME="again")
        assert trained.returncode == 0, trained.stderr
    assert (checkout.root / "checkpoints").is_dir()
    (row, *_) = map(json.loads, (checkout.root / "metrics.jsonl").read_text().splitlines())
    assert (row["group"], row["step"], row["metrics"]) == ("training", 1, {"training/loss": 0.5})

    incomplete = checkout.check("tests/config/test_registries.py", "-k", "documentation or example or complete")
    failed = set(re.findall(r"^FAILED \S+::(\w+)", incomplete.stdout, re.M))
    assert failed == {
        "test_every_search_method_has_an_example_in_the_tests",
        "test_a_storage_type_is_complete",
        "test_the_documentation_names_each_in_a_table",
    }
    for name in PLUGS.values():
        assert name in incomplete.stdout

    for section in PLUGS:
        for step in steps(section)[2:]:
            checkout.carry_out(step)
    add_command(checkout)  # here as well, because writing the reference and starting pytest take seconds
    checkout.write_reference()
    tests = (
        "tests/config/test_registries.py",
        "tests/config/test_experiment_fields.py",
        "tests/docs/test_api_table.py",
    )
    some = {
        "tests/searchers/test_properties.py": "repeat",
        "tests/cli/test_every_command.py": "(left_out or (empty and data-directory))",
    }
    chosen = " or ".join(f"({Path(file).stem} and {which})" for file, which in some.items())
    others = " and ".join(f"not {Path(file).stem}" for file in some)
    complete = checkout.check(*tests, *some, "-k", f"({others}) or {chosen}")
    assert complete.returncode == 0, complete.stdout[-3000:]
    for file in some:
        assert f"{Path(file).name} ." in complete.stdout, "no test of it was chosen"


def add_command(checkout: Checkout) -> None:
    if not checkout.has_command:
        for step in steps("command"):
            checkout.carry_out(step)
        checkout.has_command = True


def test_a_command_is_a_file_and_a_line(checkout: Checkout) -> None:
    add_command(checkout)
    asked = checkout.run("-m", "determined.cli", "data-directory", "--json")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["data_directory"].startswith(str(checkout.root))
    assert "data-directory" in checkout.run("-m", "determined.cli", "--help").stdout


def test_an_engine_keeps_the_contract(checkout: Checkout) -> None:
    for step in steps("engine"):
        checkout.carry_out(step)
    kept = checkout.check("tests/engines/test_few_threads.py", "-k", "exit")
    assert kept.returncode == 0, kept.stdout[-3000:]
    assert re.search(r"[1-9]\d* passed", kept.stdout)


def test_the_examples_are_formatted(checkout: Checkout) -> None:
    sources = [
        path
        for section in (*PLUGS, "command", "engine")
        for step in steps(section)
        if (path := checkout.carry_out(step) if step.text.startswith("New file") else None) is not None
    ]
    assert len(sources) == 6
    for check in (["format", "--check"], ["check"]):
        done = checkout.run("-m", "ruff", *check, *map(str, sources))
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_it_can_be_found(page: str) -> None:
    assert "(CONTRIBUTING.md)" in (ROOT / page).read_text()
