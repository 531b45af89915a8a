"""`import_from_path` leaves no traces."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

import determined as det
from determined.errors import InvalidExperimentException
from determined.user_code.imports import import_class


@pytest.fixture
def code(tmp_path: Path) -> Path:
    directory = tmp_path / "code"
    (directory / "pack").mkdir(parents=True)
    (directory / "model_def_x.py").write_text("import helper_x\nfrom pack import inner\nNAME = helper_x.NAME\n")
    (directory / "helper_x.py").write_text("NAME = 'theirs'\n")
    (directory / "pack" / "__init__.py").write_text("")
    (directory / "pack" / "inner.py").write_text("VALUE = 1\n")
    return directory


def test_modules_are_found_and_then_forgotten(code: Path) -> None:
    path, cwd, bytecode = list(sys.path), os.getcwd(), sys.dont_write_bytecode
    with det.import_from_path(code):
        import model_def_x  # type: ignore[import-not-found]

        assert model_def_x.NAME == "theirs"
        assert "pack.inner" in sys.modules
    for name in ("model_def_x", "helper_x", "pack", "pack.inner"):
        assert name not in sys.modules
    assert (sys.path, os.getcwd(), sys.dont_write_bytecode) == (path, cwd, bytecode)
    assert not list(code.rglob("__pycache__"))


def test_a_local_module_of_the_same_name_is_hidden_and_comes_back(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper_x.py").write_text("NAME = 'ours'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ours = importlib.import_module("helper_x")
    with det.import_from_path(code):
        assert importlib.import_module("helper_x").NAME == "theirs"
    assert sys.modules["helper_x"] is ours
    del sys.modules["helper_x"]


def test_blocks_can_be_nested(code: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "helper_x.py").write_text("NAME = 'inner'\n")
    with det.import_from_path(code):
        outer = importlib.import_module("helper_x")
        with det.import_from_path(other):
            assert importlib.import_module("helper_x").NAME == "inner"
        assert sys.modules["helper_x"] is outer
    assert "helper_x" not in sys.modules


def test_an_error_inside_restores_everything_too(code: Path) -> None:
    (code / "broken_x.py").write_text("raise KeyError('broken')\n")
    path = list(sys.path)
    with pytest.raises(KeyError), det.import_from_path(code):
        importlib.import_module("broken_x")
    assert sys.path == path
    assert "broken_x" not in sys.modules


def test_a_plain_folder_does_not_hide_a_loaded_package(code: Path) -> None:
    (code / "json").mkdir()
    import json

    with det.import_from_path(code):
        assert importlib.import_module("json") is json


def test_other_modules_imported_inside_stay(code: Path) -> None:
    sys.modules.pop("colorsys", None)
    with det.import_from_path(code):
        import colorsys
    assert sys.modules["colorsys"] is colorsys


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"), det.import_from_path(tmp_path / "nowhere"):
        pass


def test_classes_by_name() -> None:
    assert import_class("pathlib:Path") is Path
    assert import_class("determined.core.searcher:SearcherContext").__name__ == "SearcherContext"
    assert import_class("tests.user_code.test_imports:Outer.Inner") is Outer.Inner


@pytest.mark.parametrize("spec", ["Path", "pathlib:", ":Path", "pathlib:Nothing", "pathlib:Path.cwd"])
def test_what_names_no_class_is_refused(spec: str) -> None:
    with pytest.raises(InvalidExperimentException):
        import_class(spec)


class Outer:
    class Inner:
        pass
