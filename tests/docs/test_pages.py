"""The pages are consistent: their Python blocks run, their links work, and each can be reached from the first."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.helpers import warm
from tests.helpers.searches import end_processes

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
STARTS_A_RUN = re.compile(r"\bpytorch\.init\(|\bTrainer\(|\.fit\(")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _is_one_program(page: Path) -> bool:
    """Return whether a page has Python blocks and no commands: pages with commands have other tests."""
    return BLOCK.search(page.read_text()) is not None and not (
        page.parent.name == "how-to" and "```sh" in page.read_text()
    )


PROGRAMS = [
    page
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    if page.stem not in ("tutorial", "notebooks") and _is_one_program(page)  # test_notebook_page runs the latter
]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", ROOT / "ARCHITECTURE.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_as_one_program(page: Path, tmp_path: Path, data_home: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text("\n".join(BLOCK.findall(page.read_text())))
    done = warm.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    end_processes(data_home)  # the daemon of a page that uses the queue
    assert done.returncode == 0, done.stdout + done.stderr


EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


@pytest.mark.parametrize("file", [*PROGRAMS, DOCS / "tutorial.md", *EXAMPLES], ids=lambda file: str(file.name))
def test_no_program_trains_when_it_is_imported(file: Path) -> None:
    """People copy these, and loading a checkpoint imports the script."""
    blocks = BLOCK.findall(file.read_text()) if file.suffix == ".md" else [file.read_text()]
    for block in blocks:
        for statement in ast.parse(block).body:
            guarded = isinstance(statement, (ast.FunctionDef, ast.ClassDef)) or (
                isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test)
            )
            assert guarded or not STARTS_A_RUN.search(ast.unparse(statement)), ast.unparse(statement)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _links(page):
        file, _, heading = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.relative_to(ROOT)} links to {target}"
        if heading:
            assert heading in _headings(there), f"{page.relative_to(ROOT)} links to {target}"


def test_every_page_is_found_from_the_first() -> None:
    found: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in found or page.suffix != ".md" or DOCS not in page.parents:
            continue
        found.add(page)
        waiting += [(page.parent / target.partition("#")[0]).resolve() for target in _links(page) if target[0] != "#"]
    assert sorted(DOCS.rglob("*.md")) == sorted(found)


def _links(page: Path) -> list[str]:
    return [target for target in LINK.findall(FENCED.sub("", page.read_text())) if "://" not in target]


def _headings(page: Path) -> set[str]:
    """Return the anchors that a page offers, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
