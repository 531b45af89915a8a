"""Which rows of a table are selected, and so concerned by actions: by keyboard, with a filter, while rows arrive."""

from __future__ import annotations

from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.searches import Search
from tests.store.experiments import with_trials
from tests.web.pages.browser import Ui, Visitor, running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL


def _tab_to(page: api.Page, label: str) -> None:
    """Press Tab until the focus is on the element with this label."""
    target = page.get_by_label(label, exact=True)
    for _ in range(60):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    pytest.fail(f"Tab does not reach {label}")


def _selected(page: api.Page) -> list[str]:
    """Return the labels of the check boxes of rows that are checked."""
    boxes = page.locator(".table tbody input[type=checkbox]:checked")
    return [str(box.get_attribute("aria-label")) for box in boxes.all()]


def test_space_selects_the_row_of_the_check_box_that_has_the_focus(few_visitor: Visitor) -> None:
    page = few_visitor.open("/runs")
    page.locator(".table-frame").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")  # marks the third row, trial 6
    _tab_to(page, "Select 7")
    page.keyboard.press("Space")
    expect(page.locator(".chosen-bar")).to_contain_text("1 trial selected")
    assert _selected(page) == ["Select 7"]
    page.keyboard.press("x")  # the mark is where the focus is
    expect(page.locator(".chosen-bar")).to_have_count(0)
    page.locator(".table-frame").focus()
    _tab_to(page, "Select all rows that are shown")
    page.keyboard.press("Space")
    expect(page.locator(".chosen-bar")).to_contain_text("8 trials selected")
    page.keyboard.press("Space")
    expect(page.locator(".chosen-bar")).to_have_count(0)


def test_tab_goes_through_a_filter_without_changing_it(few_visitor: Visitor) -> None:
    page = few_visitor.open("/runs?q=state+%3D+COMPLETED+or+l")
    box = page.locator("[data-filter]")
    page.locator("h1").click()
    while not box.evaluate("element => element === document.activeElement"):
        page.keyboard.press("Tab")
    expect(page.locator("[role=option]")).to_have_count(0)
    page.keyboard.press("Tab")
    expect(box).not_to_be_focused()
    expect(box).to_have_value("state = COMPLETED or l")

    box.fill("")
    box.press_sequentially("sta")
    expect(page.locator("[role=option][aria-selected=true]")).to_have_text("stateRun")
    page.keyboard.press("Tab")  # takes the completion of a word that is partly typed
    expect(box).to_have_value("state ")
    expect(page.locator("[role=option]").first).to_be_visible()
    page.keyboard.press("Tab")  # nothing is partly typed
    expect(box).not_to_be_focused()
    expect(box).to_have_value("state ")
    box.click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")  # the one that the arrow key chose
    expect(box).to_have_value("state = ")


def test_a_filter_with_a_mistake_leaves_the_rows_of_the_last_correct_one(few_visitor: Visitor) -> None:
    page = few_visitor.open("/runs")
    box = page.locator("[data-filter]")
    everything = page.get_by_label("Select all rows that are shown")
    rows = page.locator(".table tbody tr")
    box.fill("experiment = 1")
    expect(rows).to_have_count(4)
    box.fill("experiment = 1 and nmae = x")
    page.keyboard.press("Escape")
    expect(page.locator("#filter-mistake")).to_contain_text("There is no column")
    expect(rows).to_have_count(4)
    expect(page.locator("#filter-mistake")).to_contain_text("experiment = 1 applies")
    expect(everything).to_be_disabled()
    page.locator(".table-frame").focus()
    page.keyboard.press("a")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator(".chosen-bar")).to_contain_text("1 trial selected")
    page.keyboard.press("Escape")

    page = few_visitor.open("/runs?q=nmae+%3D+x")  # no filter was correct before
    expect(rows).to_have_count(8)
    expect(page.locator("#filter-mistake")).to_contain_text("all rows are shown")
    expect(everything).to_be_disabled()
    box.fill("experiment = 2")
    expect(rows).to_have_count(4)
    expect(everything).to_be_enabled()


@pytest.mark.parametrize("width", [1280, 375])
def test_selecting_rows_moves_no_row(browser: api.Browser, few_ui: Ui, width: int) -> None:
    with visiting(browser, few_ui, width=width) as visitor:
        page = visitor.open("/runs")
        box = page.get_by_label("Select 8", exact=True)
        before = box.bounding_box()
        for trial in (8, 3):
            page.get_by_label(f"Select {trial}", exact=True).check()
        expect(page.locator(".chosen-bar")).to_contain_text("2 trials selected")
        assert box.bounding_box() == before
        page.keyboard.press("Escape")
        expect(page.locator(".chosen-bar")).to_have_count(0)
        assert box.bounding_box() == before


def test_experiments_without_a_metric_are_compared_by_their_newest_trials(few_visitor: Visitor) -> None:
    page = few_visitor.open("/runs?view=experiments")
    page.get_by_label("Select all rows that are shown").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_have_text("Compare 2 trials")
    expect(page.locator(".sheet.aligned").first.locator("thead th")).to_have_text(["Name", "4", "8"])


def test_more_trials_than_can_be_compared_are_cut_and_the_page_says_so(tmp_path: Path, browser: api.Browser) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    search = Search(tmp_path, MODEL, CONFIG, store=str(tmp_path / "store.sqlite"), environment=environment)
    with search.opened() as store:
        lease, _ = with_trials(store, 120, labels=[])
        store.experiments.release(lease)
    with running_ui(search) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/runs")
        page.get_by_label("Select all rows that are shown").check()
        page.get_by_role("button", name="Compare").click()
        expect(page.locator("main")).to_contain_text("These are the first 100 of 120 trials")
        expect(page.locator("h1")).to_have_text("Compare 100 trials")
        expect(page.locator(".sheet").first).to_be_visible()
        expect(page.locator("main [role=alert]")).to_have_count(0)


def test_columns_and_a_filter_of_metrics_apply_before_all_metrics_are_known(few_visitor: Visitor) -> None:
    waiting: list[api.Route] = []
    few_visitor.page.route("**/api/metrics", lambda route: waiting.append(route))
    page = few_visitor.open("/runs?cols=id,training/loss.min&q=training/loss.last+%3C+1+or+id+%3D+3")
    assert waiting
    expect(page.locator(".table thead th")).to_have_text(["", "Trial", "training/loss min"])
    expect(page.locator(".table tbody tr")).to_have_count(1)
    expect(page.locator("#filter-mistake")).to_have_count(0)
    for route in waiting:
        route.continue_()
