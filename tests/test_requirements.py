"""Requirements in pyproject.toml are installed, documented and checked; private interfaces of torch are listed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tools import minimum_versions

from determined.cli.doctor.torch_interfaces import INTERFACES

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_lowest_versions_are_read_from_the_project() -> None:
    lowest = minimum_versions.lowest_versions()
    assert "torch" not in lowest
    assert {"numpy", "click", "psycopg", "obstore", "tensorboard", "wandb", "scipy"} <= lowest.keys()
    assert set(minimum_versions.pinned_tools()) >= {"pytest", "hypothesis", "ruff"}
    makefile = (ROOT / "Makefile").read_text()
    assert f'".[{",".join(sorted(minimum_versions.extras()))}]"' in makefile, "make test-minimum installs every extra"


def test_developers_get_no_older_packages_than_users() -> None:
    declared = PROJECT["project"]["optional-dependencies"]
    users = {line for name, lines in declared.items() if name not in ("dev", "bench") for line in lines}
    names = {re.split("[>[]", line)[0] for line in users}
    repeated = [line for line in declared["dev"] if re.split("[>[]", line)[0] in names]
    assert [line for line in repeated if line not in users] == []


def test_the_oldest_python_and_torch_are_the_same_everywhere() -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert (PROJECT["tool"]["ruff"]["target-version"], PROJECT["tool"]["mypy"]["python_version"]) == ("py311", "3.11")
    assert "torch>=2.10" in PROJECT["project"]["dependencies"]
    readme = (ROOT / "README.md").read_text()
    assert "Python 3.11+, PyTorch 2.10+" in readme
    assert "3.10" not in readme
    doctor = ROOT / "src" / "determined" / "cli" / "doctor"
    assert "_OLDEST = (3, 11)" in (doctor / "python.py").read_text()
    assert "_OLDEST = (2, 10)" in (doctor / "torch.py").read_text()


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("numpy", "1.26.0"),  # has no numpy._core: no checkpoint could be read
        ("click", "8.2.1"),  # lets `det version` and others print JSON without being asked for
        ("obstore", "0.10.0"),  # has no read_timeout: no cloud storage
        ("psycopg", "3.1.0"),  # shows part of the password of a malformed URL
        ("tensorboard", "2.16.0"),  # requires tf-nightly
        ("torch", "2.9.1"),  # loading an untrusted checkpoint is not safe
    ],
)
def test_versions_that_do_not_work_are_not_allowed(package: str, version: str) -> None:
    declared = [*PROJECT["project"]["dependencies"]]
    for lines in PROJECT["project"]["optional-dependencies"].values():
        declared.extend(lines)
    requirements = [found for found in map(Requirement, declared) if found.name == package]
    assert requirements
    assert [str(found) for found in requirements if found.specifier.contains(version)] == []


def test_the_wheel_holds_both_packages() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [
        "src/determined",
        "src/determined_common",
    ]


# Private interfaces of torch

LISTED = {name for interface in INTERFACES for name in interface.names}
SOURCES = {
    path: path.read_text()
    for path in (ROOT / "src" / "determined").rglob("*.py")
    if path.name not in ("torch_interfaces.py", "torch.py")
}
PRIVATE = re.compile(r"\btorch((?:\.[a-z][a-z_]*)*)(?:\.| import )(_[a-zA-Z]\w*)")


def test_every_private_module_of_torch_in_use_is_listed() -> None:
    found = {f"torch{public}.{name}" for text in SOURCES.values() for public, name in PRIVATE.findall(text)}
    used = {name for name in found if not name.rpartition(".")[2].startswith("__")}
    assert "torch._C" in used
    # Functions are listed by their names, modules by their qualified names.
    assert sorted(name for name in used if not _is_listed(name)) == []


def _is_listed(name: str) -> bool:
    return name.rpartition(".")[2] in LISTED or any(f"{one}.".startswith(f"{name}.") for one in LISTED)


def test_what_is_listed_is_in_use() -> None:
    everything = "\n".join(SOURCES.values())
    last_parts = {name: name.rpartition(".")[2] for name in LISTED}
    assert [name for name, part in last_parts.items() if not re.search(rf"\b{part}\b", everything)] == []


def test_the_checks_notice_what_has_changed() -> None:
    program = """
import json, torch
from determined.cli.doctor.torch_interfaces import failures
before = failures()
del torch.cuda._is_in_bad_fork, torch.nn.parallel.DistributedDataParallel._sync_buffers
print(json.dumps([before, failures()]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout.splitlines()[-1])
    assert before == []
    assert [line.partition(" (")[0] for line in after] == [
        "_sync_buffers, _comm_hooks, modules_buffers, require_forward_param_sync, require_backward_grad_sync",
        "torch.cuda._is_in_bad_fork",
    ]
