"""Names and values that a program wrote are text in a notebook, inside and outside of the frame."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.experimental import Determined
from determined.experimental.charts.comparison import Comparison
from determined.experimental.charts.data import ChartData
from determined.experimental.charts.frame import chart_html
from determined.experimental.session import Session
from determined.store.open import open_store
from tests.experimental.charts.shown import Chart, Parsed
from tests.helpers.curve_stores import falling, searched

FRAGMENTS = [
    "</script>",
    "<script>parent.document.title = 'hacked'</script>",
    "<!--",
    "-->",
    "]]>",
    '"',
    "'",
    "&quot;",
    "&#34;&#x27;",
    '"></iframe><img src=x onerror=alert(1)>',
    "\\u003c/script\\u003e",
    "\n",
    "\r\n\t",
    "\x00\x1b[2J",
    "\u202eright to left",
    "\u2028\u2029",
    "\ud800 half",
    "z" * 10_000,
    "%22/=&?#+",
]
anything = st.text(st.characters(categories=None), max_size=10)
texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), anything), min_size=1, max_size=5).map("".join)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory, static: Path) -> Iterator[tuple[Session, ChartData]]:
    """Return the data of a chart of two trials of two experiments."""
    place = str(tmp_path_factory.mktemp("store") / "store.sqlite")
    store = open_store(place)
    _, (first,) = searched(store, [{"lr": 0.1}], name="one")
    _, (second,) = searched(store, [{"lr": 0.2}], name="two")
    store.close()
    with Determined(place) as sdk:
        compared = sdk.compare([first, second])
        yield sdk._session, compared._data


def readable(metric: str) -> str:
    """Return the name of a metric as it is read: without halves of surrogate pairs."""
    return re.sub("[\ud800-\udfff]", "\ufffd", metric)


def with_texts(data: ChartData, name: str, setting: str, value: str, metric: str, note: str) -> ChartData:
    """Return the same chart of trials that have other names."""
    experiments = {number: row._replace(name=name) for number, row in data.experiments.items()}
    trials = [row._replace(hparams={setting: value}, reason=note) for row in data.trials]
    settings: dict[int, dict[str, Any]] = {row.id: {setting: value} for row in trials}
    (curves, *_) = data.curves.values()
    key = readable(metric)
    return dataclasses.replace(
        data, trials=trials, experiments=experiments, settings=settings, metric=key, curves={key: curves}, notes=[note]
    )


@given(texts, texts, texts, texts, texts)
def test_no_text_leaves_its_place(
    read: tuple[Session, ChartData], name: str, setting: str, value: str, metric: str, note: str
) -> None:
    _, original = read
    data = with_texts(original, name, setting, value, metric, note)
    html = chart_html(data)
    html.encode()  # it can be sent
    chart = Chart(html)
    assert chart.outside.tags() == ["iframe", "p"]
    assert set(chart.frame) == {"sandbox", "title", "width", "height", "style", "srcdoc"}
    assert chart.frame["title"] == f"Curves of {data.metric} of 2 trials"
    assert chart.outside.texts == ["", note.encode("utf-8", "replace").decode()]
    plain = Chart(chart_html(original))
    assert chart.inside.elements == plain.inside.elements
    assert chart.scripts() == plain.scripts()
    assert set(chart.answers) == {data.metric}
    expected = f"{name} {setting}={value}" if name else f"{setting}={value}"
    for row in data.trials:
        shown = chart.content["names"][str(row.id)].removeprefix(f"trial {row.id} ").removesuffix("…")
        assert expected.startswith(shown)
        assert shown == expected or len(shown) > 100


@given(texts, texts, texts, texts, texts)
def test_tables_and_text_are_text(
    read: tuple[Session, ChartData], name: str, setting: str, value: str, metric: str, note: str
) -> None:
    session, original = read
    compared = Comparison(session, with_texts(original, name, setting, value, metric, note))
    html = Parsed(compared._repr_html_())
    assert set(html.tags()) == {"iframe", "p", "table", "tr", "th", "td"}
    assert not [attributes for tag, attributes in html.elements if attributes and tag != "iframe"]
    text = repr(compared)
    text.encode()
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("hostile", [text for text in FRAGMENTS if "\x00" not in text])
def test_what_a_program_stored_is_shown_as_text(tmp_path: Path, static: Path, hostile: str) -> None:
    """The same through a store, and for objects of every kind."""
    storable = hostile.encode("utf-8", "replace").decode()  # a database cannot store halves of pairs, JSON in it can
    store = open_store(str(tmp_path / "store.sqlite"))
    report = lambda number, step: {**falling(number, step), hostile: step}  # noqa: E731
    experiment, trials = searched(store, [{hostile: hostile, "lr": 1}, {"lr": 2}], report=report, name=storable)
    store.close()
    with Determined(str(tmp_path / "store.sqlite")) as sdk:
        compared = sdk.compare(trials, readable(hostile))
        assert compared.metric == f"validation/{readable(hostile)}"
        for html in (
            compared._repr_html_(),
            sdk.get_trial(trials[0])._repr_html_(),
            sdk.get_experiment(experiment)._repr_html_(),
        ):
            chart = Chart(html)
            assert set(chart.outside.tags()) <= {"iframe", "p", "table", "tr", "th", "td"}
            assert compared.metric in chart.answers
