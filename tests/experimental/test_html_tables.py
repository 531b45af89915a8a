"""Objects of the SDK as notebooks show them."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from determined import core
from determined.experimental import Determined, Experiment
from determined.experimental.results.html_tables import Cells, ShownList, table_of_one

HOSTILE = "<script>alert('x')</script>&\"<b>"


class Table(HTMLParser):
    """A table as a browser reads it: tags with their attributes, and rows of texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.rows: list[list[str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[Any]) -> None:
        self.tags.add(tag)
        self.attributes += attributes
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


class Anything:
    def __init__(self, cells: Cells, settings: Cells) -> None:
        self._shown, self._varying = cells, settings

    def _cells(self) -> Cells:
        return self._shown

    def _settings(self) -> Cells:
        return self._varying


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20), min_size=1), st.text())
def test_no_text_becomes_markup(cells: Cells, more: str) -> None:
    item = Anything(cells, {"setting": more})
    for html in (table_of_one(item), ShownList([item, Anything(cells, {"setting": more + "x"})])._repr_html_()):
        table = Table(html)
        assert table.tags <= {"table", "tr", "td", "th", "p"}
        assert table.attributes == []


def test_objects_and_lists_of_a_search(searched: Experiment) -> None:
    shown = dict(row for row in Table(searched._repr_html_()).rows if len(row) == 2)
    assert (shown["Name"], shown["State"], shown["Trials"]) == ("sdk search", "COMPLETED", "3")
    trials = searched.list_trials()
    assert isinstance(trials, list)
    head, *rows = Table(trials._repr_html_()).rows  # type: ignore[attr-defined]
    assert "lr" in head  # it differs between trials
    assert "global_batch_size" not in head
    assert [row[0] for row in rows] == [str(trial.id) for trial in trials]
    assert len(Table(trials[:1]._repr_html_()).rows) == 2  # type: ignore[attr-defined]
    checkpoint = searched.list_checkpoints()[0]
    assert ["UUID", checkpoint.uuid] in Table(checkpoint._repr_html_()).rows
    assert "validation_loss" in Table(searched.list_checkpoints()._repr_html_()).rows[0]  # type: ignore[attr-defined]
    assert ["ID", str(trials[0].id)] in Table(trials[0]._repr_html_()).rows
    assert json.dumps([trial.id for trial in trials])


def test_what_a_program_wrote_is_shown_as_text() -> None:
    with core.init(name=HOSTILE) as context:
        context.train.report_validation_metrics(1, {HOSTILE: 0.5, "State": 7.0})
        with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
            (path / "file").write_text("")
    store = Determined()
    model = store.create_model("model", HOSTILE, {HOSTILE: HOSTILE}, [HOSTILE])
    version = model.register_version(uuid)
    version.set_notes(HOSTILE)
    shown: list[Any] = [store.list_experiments(), model, version, store.list_models(), model.list_versions()]
    for value in shown:
        table = Table(value._repr_html_())
        assert "script" not in table.tags
        assert any(HOSTILE in cell for row in table.rows for cell in row), table.rows
    checkpoint = dict(Table(store.get_checkpoint(uuid)._repr_html_()).rows)
    assert (checkpoint["State"], checkpoint["State (value)"], checkpoint[HOSTILE]) == ("COMPLETED", "7", "0.5")
    store.close()


def test_long_lists_are_cut() -> None:
    html = ShownList([Anything({"number": number}, {}) for number in range(1234)])._repr_html_()
    assert len(Table(html).rows) == 101
    assert "and 1,134 more" in html
    assert ShownList[Anything]()._repr_html_() == "<p>empty list</p>"


def test_the_sdk_imports_nothing_for_it() -> None:
    code = (
        "import sys; from determined.experimental import client; print('html' in sys.modules, 'IPython' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"
