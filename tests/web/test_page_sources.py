"""The sources of the web page: types, unit tests, the size of files and of what a browser loads."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "page"

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (PAGE / "node_modules").is_dir(),
    reason="Node or page/node_modules is missing: install Node and run `make page`",
)


def _node(*arguments: str, out: Path | None = None) -> str:
    node = shutil.which("node")
    assert node is not None
    environment = {"PATH": str(Path(node).parent)} | ({} if out is None else {"DET_PAGE_OUT": str(out)})
    outcome = subprocess.run([node, *arguments], cwd=PAGE, capture_output=True, text=True, env=environment)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


@needs_node
def test_the_types_are_right() -> None:
    _node("node_modules/typescript/bin/tsc", "--noEmit")


@needs_node
def test_filter_language_addresses_and_scales(tmp_path: Path) -> None:
    _node("build.mjs", "--tests", out=tmp_path / "tests")
    said = _node("--test", *map(str, sorted((tmp_path / "tests").iterdir())))
    assert re.search("pass [1-9]", said), said


@needs_node
def test_scripts_and_styles_stay_small(tmp_path: Path) -> None:
    _node("build.mjs", out=tmp_path / "static")
    sizes = {
        path.name: len(gzip.compress(path.read_bytes()))
        for path in (tmp_path / "static").iterdir()
        if path.suffix in (".js", ".css")
    }
    assert set(sizes) == {"theme.js", "page.js", "page.css", "chart.js"}
    assert sizes["theme.js"] + sizes["page.js"] + sizes["page.css"] <= 100_000
    assert sizes["chart.js"] <= 50_000  # it is part of every output of a notebook


def test_no_file_is_longer_than_300_lines() -> None:
    sources = [path for path in (PAGE / "src").rglob("*") if path.suffix in (".ts", ".tsx", ".css")]
    assert sources
    long = {path.name: lines for path in sources if (lines := path.read_text().count("\n")) > 300}
    assert long == {}


def test_nothing_is_inserted_as_html_and_no_code_is_made_from_text() -> None:
    """Output of programs is shown as text: no source may use the ways around Preact's escaping."""
    ways = (
        "dangerouslySetInnerHTML",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    )
    found = [f"{path.name}: {way}" for path in (PAGE / "src").rglob("*.ts*") for way in ways if way in path.read_text()]
    assert found == []


def test_the_lock_file_names_no_registry_and_few_packages() -> None:
    packages = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in package for package in packages.values())
    names = {name.removeprefix("node_modules/") for name, package in packages.items() if not package.get("optional")}
    assert names == {"", "preact", "uplot", "esbuild", "typescript", "axe-core"}
