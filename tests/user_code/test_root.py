"""Which files are the code of a standalone program."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from determined.user_code import root as roots
from determined.user_code.program import Program
from determined.user_code.root import CodeRoot, code_root


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def written(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def script(path: Path) -> CodeRoot:
    root = code_root(Program("script", written(path)))
    assert root is not None
    return root


def module(path: Path, name: str) -> CodeRoot:
    root = code_root(Program("module", written(path), name))
    assert root is not None
    return root


def imported(monkeypatch: pytest.MonkeyPatch, name: str, file: Path) -> None:
    loaded = ModuleType(name)
    loaded.__file__ = str(written(file))
    monkeypatch.setitem(sys.modules, name, loaded)


def test_the_directory_of_the_script(place: Path) -> None:
    assert script(place / "proj" / "train.py") == CodeRoot(place / "proj", (place / "proj" / "train.py",), True)


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_the_project_around_the_script(place: Path, mark: str) -> None:
    written(place / "outer" / ".git")
    written(place / "outer" / "proj" / mark)
    assert script(place / "outer" / "proj" / "scripts" / "train.py").directory == place / "outer" / "proj"


def test_a_module_is_found_in_the_directory_with_its_package(place: Path) -> None:
    written(place / ".git")
    assert module(place / "src" / "pkg" / "sub" / "mod.py", "pkg.sub.mod").directory == place / "src"
    assert module(place / "src" / "pkg" / "__main__.py", "pkg.__main__").directory == place / "src"
    assert module(place / "src" / "train.py", "train").directory == place / "src"


def test_a_notebook_is_in_its_own_directory(place: Path) -> None:
    written(place / ".git")
    notebook = written(place / "notebooks" / "a.ipynb")
    assert code_root(Program("notebook", notebook)) == CodeRoot(place / "notebooks", (notebook,), True)


def test_code_without_a_file_and_tests_have_none() -> None:
    assert code_root(Program("interactive", None)) is None
    assert code_root(Program("notebook", None)) is None
    assert code_root(Program("test", Path(__file__))) is None


def test_beside_other_programs_only_the_script_and_its_modules(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place))
    written(place / ".git")
    imported(monkeypatch, "helper_of_root", place / "helper_of_root.py")
    imported(monkeypatch, "pack_of_root", place / "pack_of_root" / "__init__.py")
    imported(monkeypatch, "pack_of_root.inner", place / "pack_of_root" / "inner.py")
    imported(monkeypatch, "elsewhere_of_root", place / "lib" / "elsewhere_of_root.py")
    in_home = script(place / "train.py")
    assert (in_home.directory, in_home.complete) == (place, False)
    assert [path.relative_to(place).as_posix() for path in in_home.in_use] == [
        "train.py",
        "helper_of_root.py",
        "pack_of_root/__init__.py",
        "pack_of_root/inner.py",
    ]
    # A repository of settings in the home directory does not make everything below it one project.
    below = script(place / "work" / "train.py")
    assert (below.directory, below.complete) == (place / "work", True)


@pytest.mark.parametrize(
    "directory", ["/", "/tmp", "/root", "/home", "/home/somebody", "/etc", "/usr/local", "/var/tmp"]
)
def test_directories_of_the_system_are_shared(directory: str) -> None:
    root = code_root(Program("script", Path(directory, "train.py")))
    assert root is not None
    assert (root.directory, root.complete) == (Path(directory), False)


def test_the_temporary_directory_is_shared_and_those_in_it_are_not(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    assert not script(place / "train.py").complete
    assert script(place / "mine" / "train.py").complete


def test_installed_programs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(place))
    console_script = script(place / "bin" / "tool")
    assert (console_script.in_use, console_script.complete) == ((place / "bin" / "tool",), False)
    imported(monkeypatch, "tool_of_root", place / "lib" / "tool_of_root" / "__init__.py")
    imported(monkeypatch, "other_of_root", place / "lib" / "other_of_root" / "__init__.py")
    installed = module(place / "lib" / "tool_of_root" / "main.py", "tool_of_root.main")
    assert installed.directory == place / "lib"
    assert [path.name for path in installed.in_use] == ["main.py", "__init__.py"]
    assert not installed.complete


def test_a_project_that_contains_its_environment_is_complete(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(place / ".venv"))
    assert script(place / "train.py").complete


def test_the_home_of_another_user(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda _: "/nowhere")
    assert roots._is_shared(Path("/root").resolve())
