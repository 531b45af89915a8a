"""What the page keeps: the outcome of actions, notes that are not saved, and the view of each tab."""

from __future__ import annotations

from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.store.experiment_changes import Change, ExperimentChange
from tests.helpers.searches import Search
from tests.store.experiments import with_trials
from tests.web.pages.browser import Visitor, running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL


@pytest.fixture
def two(tmp_path: Path) -> Search:
    """An experiment that has ended, and one that has not."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    search = Search(tmp_path, MODEL, CONFIG, store=str(tmp_path / "store.sqlite"), environment=environment)
    with search.opened() as store:
        changes = (ExperimentChange(state="COMPLETED", ended=4000.0), ExperimentChange(state="PAUSED"))
        for change in changes:
            lease, _ = with_trials(store, 1, labels=[])
            store.experiments.commit(lease, Change(experiment=change))
            store.experiments.release(lease)
    return search


def test_an_action_that_is_rejected_for_some_says_for_which_and_why(two: Search, browser: api.Browser) -> None:
    with running_ui(two) as ui, visiting(browser, ui, width=375) as visitor:
        page = visitor.open("/runs?view=experiments&archived=1")
        page.get_by_label("Select all rows that are shown").check()
        chosen, dialog = page.locator(".chosen-bar"), page.get_by_role("dialog")
        chosen.get_by_role("button", name="Actions").click()
        page.get_by_role("button", name="Archive (2)", exact=True).click()  # without a question
        expect(dialog).to_contain_text("Done for 1 of 2")
        expect(dialog.get_by_role("alert")).to_contain_text("Experiment 2: ")
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)

        chosen.get_by_role("button", name="Actions").click()
        page.get_by_role("button", name="Cancel (2)", exact=True).click()
        dialog.get_by_role("button", name="Cancel", exact=True).click()
        expect(dialog).to_contain_text("Done for 1 of 2")
        expect(dialog.get_by_role("alert")).to_contain_text("Experiment 1: ")
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)
    with two.opened() as store:
        assert [store.experiments.get(number).archived for number in (1, 2)] == [True, False]


def test_the_dialog_of_a_deletion_can_be_closed_while_it_loads_and_after_an_error(few_visitor: Visitor) -> None:
    few_visitor.expected = ("ERR_FAILED",)
    waiting: list[api.Route] = []
    page = few_visitor.open("/experiments/1")
    page.route("**/api/actions/preview", lambda route: waiting.append(route))
    dialog = page.get_by_role("dialog")

    def ask() -> None:
        page.get_by_role("button", name="Actions").first.click()
        page.get_by_role("button", name="Delete", exact=True).click()

    ask()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    ask()
    expect(dialog).to_be_visible()
    waiting.pop().abort()
    expect(dialog.get_by_role("alert")).to_contain_text("does not answer")
    page.unroute("**/api/actions/preview")
    dialog.get_by_role("button", name="Try again").click()
    expect(dialog).to_contain_text("with 4 trials")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_notes_and_the_view_of_a_tab_survive_a_visit_of_another_tab(few_visitor: Visitor) -> None:
    page = few_visitor.open("/experiments/1?tab=notes")
    tabs = page.get_by_role("navigation", name="Parts of the experiment")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Notes").fill("what was tried")
    tabs.get_by_role("link", name="Curves").click()
    page.locator("[data-filter]").fill("number = 1")
    page.keyboard.press("Escape")
    page.locator(".table tbody input[type=checkbox]").check()
    address = page.url
    tabs.get_by_role("link", name="Notes").click()
    expect(page.get_by_label("Notes")).to_have_value("what was tried")
    tabs.get_by_role("link", name="Curves").click()
    expect(page).to_have_url(address)
    expect(page.locator("[data-filter]")).to_have_value("number = 1")
    expect(page.locator(".chosen-bar")).to_contain_text("1 trial selected")

    asked: list[str] = []

    def leave(dialog: api.Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.once("dialog", leave)
    page.reload()
    assert asked == ["beforeunload"]
