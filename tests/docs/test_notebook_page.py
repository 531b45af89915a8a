"""The how-to page about notebooks: its blocks are the cells of a notebook, and run in a real kernel."""

from __future__ import annotations

from pathlib import Path

from tests.docs.following import blocks, matches
from tests.helpers.notebooks import Cell, started

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "notebooks.md"


def test_the_cells_of_the_page_run(tmp_path: Path) -> None:
    cell: Cell | None = None
    with started(tmp_path) as notebook:
        for block in blocks(PAGE.read_text()):
            if block.language == "python":
                cell = notebook.run(block.content)
                assert not cell.error, f"{block.content}\n{cell.error}"
            else:
                assert block.language == "text"
                assert cell is not None
                assert matches(block.content, "\n".join(cell.shown("text/plain"))), cell.outputs
    assert cell is not None
    assert ["<table>" in table and "line" in table for table in cell.shown("text/html")] == [True]
