"""The how-to page about notebooks: its blocks are the cells of a notebook, and run in a real kernel."""

from __future__ import annotations

from pathlib import Path

from determined.built_page import HOW_TO_BUILD, is_built
from tests.docs.following import blocks, matches
from tests.helpers.notebooks import Cell, started

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "notebooks.md"


def test_the_cells_of_the_page_run(tmp_path: Path) -> None:
    cell: Cell | None = None
    shown: list[str] = []
    with started(tmp_path) as notebook:
        for block in blocks(PAGE.read_text()):
            if block.language == "python":
                cell = notebook.run(block.content)
                assert not cell.error, f"{block.content}\n{cell.error}"
                shown += cell.shown("text/html")
            else:
                assert block.language == "text"
                assert cell is not None
                assert matches(block.content, "\n".join(cell.shown("text/plain"))), cell.outputs
    experiments, experiment, comparison = shown
    for table in (experiments, experiment):
        assert "<table>" in table
        assert "line" in table
    for chart in (experiment, comparison):
        assert "<table>" in chart
        assert ("<iframe" if is_built() else HOW_TO_BUILD.replace("&", "&amp;")) in chart
    assert "&quot;x&quot;:[1.0,2.0,3.0,4.0,5.0]" in comparison or not is_built()  # epochs
