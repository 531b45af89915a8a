"""A page that is opened before anything was recorded says so, and shows the first run without a reload."""

from __future__ import annotations

from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.searches import Search
from tests.web.pages.browser import running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL


def test_the_first_experiment_appears_on_an_open_page(tmp_path: Path, browser: api.Browser) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    home = tmp_path / "home"
    search = Search(home, MODEL, CONFIG, environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    with running_ui(search) as ui, visiting(browser, ui) as visitor:
        visitor.expected = ("503",)
        page = visitor.page
        page.goto(f"{ui.url}/runs?view=experiments")
        expect(page.locator("[role=alert]").first).to_contain_text("There is no store")
        search.create()
        expect(page.locator(".table tbody")).to_contain_text("adaptive <b>search</b>", timeout=60_000)
        expect(page.locator("[role=alert]")).to_have_count(0)
