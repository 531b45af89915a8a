"""A running queue: which experiment holds a slot, and how trials and experiments are ended by clicking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.searches import Search, end_processes
from tests.web.pages.browser import running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL

PATIENCE = 90_000  # milliseconds


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Search]:
    """Create slow searches of two trials, on a machine with one slot."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    slowly = tmp_path / "slowly"
    slowly.touch()
    config = {
        **CONFIG,
        "hyperparameters": {**CONFIG["hyperparameters"], "opt": "adam"},
        "searcher": {"name": "random", "metric": "loss", "max_length": {"batches": 64}, "max_trials": 2},
        "max_restarts": 0,
    }
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "SLOWLY": str(slowly), "DET_SLOTS": "1"}
    search = Search(tmp_path / "home", MODEL, config, slots=1, environment=environment)
    try:
        yield search
    finally:
        end_processes(search.home)


def _confirm(page: api.Page, place: api.Locator, action: str) -> None:
    """Choose an action from a menu, and confirm it."""
    place.get_by_role("button", name="Actions").first.click()
    page.get_by_role("button", name=action, exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_trials_and_experiments_of_a_queue_are_ended_by_clicking(slow: Search, browser: api.Browser) -> None:
    first, second = slow.create(), slow.create()
    with running_ui(slow) as ui, visiting(browser, ui) as visitor:
        for experiment in (first, second):
            page = visitor.open(f"/experiments/{experiment}")
            page.get_by_role("button", name="Activate", exact=True).click()
            expect(page.locator(".title .badge").first).not_to_contain_text("Paused", timeout=PATIENCE)

        page = visitor.open("/queue")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0).locator("td").nth(6)).to_have_text("0", timeout=PATIENCE)  # the slot that it holds
        expect(rows.nth(1)).to_contain_text("waits")
        expect(page.locator(".panel-head")).to_contain_text("Experiments that share 1 slot")
        expect(page.locator(".panel-head")).to_contain_text("served")

        dot = page.locator(".dot.run")
        expect(dot).to_be_visible(timeout=PATIENCE)
        rounds = "(dot) => dot.getAnimations().map((motion) => motion.effect.getTiming().iterations)"
        assert dot.evaluate(rounds) == [float("inf")]
        page.emulate_media(reduced_motion="reduce")
        assert float("inf") not in dot.evaluate(rounds)

        page = visitor.open("/runs")
        trial = page.locator("tbody tr", has=page.get_by_label("Select 1", exact=True))
        expect(trial).to_contain_text("Running", timeout=PATIENCE)
        trial.get_by_role("checkbox").check()
        _confirm(page, page.locator(".chosen-bar"), "Kill trial")
        expect(trial).not_to_contain_text("Running", timeout=PATIENCE)
        other = page.locator("tbody tr", has=page.get_by_label("Select 2", exact=True))
        expect(other).to_contain_text("Running", timeout=PATIENCE)  # the search continues without it

        page = visitor.open("/queue")
        _confirm(page, rows.nth(0), "Cancel")
        expect(rows).to_have_count(1, timeout=PATIENCE)
        expect(rows.nth(0).locator("td").nth(6)).to_have_text("0", timeout=PATIENCE)

        page = visitor.open(f"/experiments/{second}")
        expect(page.locator(".chart-foot").first).to_contain_text("points", timeout=PATIENCE)
        _confirm(page, page.locator(".head"), "Kill")
        expect(page.locator(".title .badge").first).to_contain_text("Canceled", timeout=PATIENCE)

    with slow.opened() as store:
        killed, canceled = store.experiments.trials(first)
        assert [store.experiments.get(number).state for number in (first, second)] == ["CANCELED", "CANCELED"]
        assert (killed.state, canceled.state) == ("CANCELED", "CANCELED")
        # A canceled trial saves a checkpoint before it ends; a killed one does not.
        assert store.checkpoints(canceled.id)
        assert not any(row.steps_completed % 16 for row in store.checkpoints(killed.id))
