"""A table or a phone that is too narrow: the page says or shows where the hidden parts are."""

from __future__ import annotations

import re
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.store.open import open_store
from tests.helpers.searches import Search
from tests.store.rows import begin, metric
from tests.web.pages.browser import Ui, Visitor, running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL


def test_a_phone_shows_the_chosen_tab_and_complete_titles(browser: api.Browser, ui: Ui) -> None:
    with visiting(browser, ui, width=375) as visitor:
        page = visitor.open("/experiments/1?tab=config")
        tab = page.locator(".tabs [aria-current=page]").bounding_box()
        assert tab is not None
        assert tab["x"] >= 0
        assert tab["x"] + tab["width"] <= 375
        title = page.get_by_role("heading", name="Configuration")
        assert title.evaluate("title => title.scrollWidth <= title.clientWidth")


def test_the_tables_of_a_comparison_have_the_same_columns(visitor: Visitor) -> None:
    page = visitor.open("/compare?trials=1-3,17")
    places = page.locator(".sheet.aligned").evaluate_all(
        """tables => tables.map(
             table => [...table.querySelectorAll("thead th")].map(cell => Math.round(cell.offsetLeft)))"""
    )
    assert len(places) > 1
    assert len(places[0]) == 5
    assert all(place == places[0] for place in places)


def test_deleted_checkpoints_are_counted_separately(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1?tab=checkpoints")
    deleted = page.locator(".sheet tbody tr", has_text="Deleted").count()
    kept = page.locator(".sheet tbody tr", has_text="Verify now").count()
    assert deleted > 0
    title = re.compile(rf"^{kept} checkpoints, \d+ B, and {deleted} deleted$")
    expect(page.locator(".panel-head h2")).to_have_text(title)


def test_a_table_names_metrics_that_are_not_among_its_columns_until_they_are(
    tmp_path: Path, browser: api.Browser
) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    place = str(tmp_path / "store.sqlite")
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    search = Search(tmp_path / "home", MODEL, CONFIG, store=place, environment=environment)
    store = open_store(place)
    store.write([metric(begin(store), "training", 1, {"rare": 1.0})])
    for _ in range(60):
        store.write([metric(begin(store), "training", 1, {"loss": 1.0})])
    store.close()
    with running_ui(search) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/runs")
        foot = page.locator(".table-foot")
        expect(foot).to_contain_text("metrics that only 11 older trials reported")
        page.get_by_role("button", name="Columns").click()
        page.get_by_label("Find a column").fill("training/")
        expect(page.get_by_label("training/rare min")).to_have_count(0)
        page.get_by_label("training/loss min").click()
        expect(page.get_by_label("training/rare min")).to_be_visible()
        expect(foot).not_to_contain_text("older trials")
        expect(foot).not_to_contain_text("being computed")
