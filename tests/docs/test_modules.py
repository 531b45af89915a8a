"""The list of modules, and the statements of ARCHITECTURE.md about files."""

from __future__ import annotations

import re

from tools import modules


def test_the_page_is_current_and_complete() -> None:
    assert modules.PAGE.read_text() == modules.page(), "docs/modules.md is out of date: run `make reference`"
    assert "| `loop.py` | " in modules.page()
    assert not re.findall(r"\| `\S+` \|  \|", modules.page()), "a module without a docstring"


def test_a_folder_has_about_twenty_files_at_most() -> None:
    folders = [path for path in modules.SOURCE.rglob("*") if path.is_dir()]
    sizes = {str(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: size for folder, size in sizes.items() if size > 25} == {}


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (modules.ROOT / "ARCHITECTURE.md").read_text()
    known = {path.relative_to(modules.SOURCE).as_posix() for path in modules.SOURCE.rglob("*.py")}
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))
    tests = {name for name in named if name.startswith("tests/")}
    unknown = {name for name in named - tests if not any(path == name or path.endswith("/" + name) for path in known)}
    assert tests
    assert not unknown | {name for name in tests if not (modules.ROOT / name).is_file()}
