"""The output of a real notebook: what the cells show, and what its file contains."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat

from determined.built_page import STATIC, is_built
from determined.store.open import open_store
from tests.experimental.charts.shown import Chart, Parsed
from tests.helpers.curve_stores import falling, searched
from tests.helpers.notebooks import Notebook, started

HOSTILE = "</script><script>parent.document.title='hacked'</script>\"'<!-- \u202e\u2028\ud800\x1b[2J"


def filled(place: Path) -> tuple[int, list[int]]:
    """Write a search whose names are hostile."""
    store = open_store(str(place))
    found = searched(
        store,
        [{"lr": 0.1, HOSTILE: 1, "api_token": "sesame"}, {"lr": 0.2, HOSTILE: HOSTILE, "api_token": "sesame 2"}],
        name=HOSTILE.replace("\ud800", ""),
        report=lambda number, step: {**falling(number, step), HOSTILE: step},
    )
    store.close()
    return found


def test_cells_show_charts_and_the_file_of_the_notebook_contains_them(tmp_path: Path) -> None:
    experiment, trials = filled(tmp_path / "store.sqlite")
    with started(tmp_path) as notebook:
        assert not notebook.run(
            f"from determined.experimental import client\nclient.login({str(tmp_path / 'store.sqlite')!r})"
        ).error
        cells = {
            "Trial(": f"client.get_trial({trials[0]})",
            "Experiment(": f"client.get_experiment({experiment})",
            "2 trials: validation/error": f"client.compare({trials})",
        }
        for text, code in cells.items():
            cell = notebook.run(code)
            assert not cell.error
            assert cell.text == ""  # nothing was printed, such as the traceback of a formatter
            (html,), (plain,) = cell.shown("text/html"), cell.shown("text/plain")
            assert plain.startswith(text)
            assert all(line.isprintable() for line in plain.split("\n"))
            check(html)
        written = read_back(notebook, tmp_path / "notebook.ipynb")
    assert len(written) == 3
    for html in written:
        check(html)


def read_back(notebook: Notebook, path: Path) -> list[str]:
    """Write the notebook to a file, and return the HTML that it contains."""
    nbformat.validate(notebook.content)
    nbformat.write(notebook.content, path)
    cells = json.loads(path.read_text())["cells"]
    outputs = [output["data"].get("text/html") for cell in cells for output in cell["outputs"]]
    return ["".join(html) for html in outputs if html]


def check(html: str) -> None:
    """Check that the HTML has tables, a chart if the page is built, no secrets, and no active text of programs."""
    assert "sesame" not in html
    assert set(Parsed(html).tags()) <= {"table", "tr", "th", "td", "p", "iframe"}
    if not is_built(STATIC):
        assert "npm run build" in html
        return
    chart = Chart(html)
    assert chart.inside.tags().count("script") == 2
    assert {"validation/error", "validation/accuracy"} < set(chart.answers)
