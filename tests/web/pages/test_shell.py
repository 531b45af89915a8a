"""What frames every page: login and theme; times that go on; failed trials in the queue."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.store.experiment_changes import Change, TrialChange
from determined.store.process import this_user
from determined.store.substores.queue import NewEntry
from tests.helpers.searches import Search
from tests.store.experiments import with_trials
from tests.web.pages.browser import Ui, Visitor, running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL


@pytest.fixture
def queued(tmp_path: Path) -> Search:
    """Return a store with a queued experiment, created now, of whose two trials one failed."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    search = Search(tmp_path, MODEL, CONFIG, store=str(tmp_path / "store.sqlite"), environment=environment)
    with search.opened() as store:
        lease, trials = with_trials(store, 2, labels=[], created=time.time())
        store.experiments.commit(lease, Change(trials=(TrialChange(trials[0], state="ERROR", ended=4000.0),)))
        store.experiments.release(lease)
        store.queue.add(NewEntry(lease.experiment_id, socket.gethostname(), this_user()))
    return search


def test_the_queue_counts_failed_trials_and_durations_go_on(queued: Search, browser: api.Browser) -> None:
    with running_ui(queued) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/queue")
        expect(page.locator("tbody tr")).to_contain_text("1 failed, 1 waiting")
        page = visitor.open("/runs?view=experiments&cols=id,duration")
        duration = page.locator(".table tbody td").nth(2)
        expect(duration).to_have_text(re.compile(r"\d s$"))
        before = duration.inner_text()
        expect(duration).not_to_have_text(before)  # although nothing changes in the store


def test_a_code_that_was_used_does_not_lock_out_a_browser_with_a_session(few_visitor: Visitor) -> None:
    few_visitor.expected = ("401", "403")
    page = few_visitor.page
    page.goto("about:blank")
    page.goto(f"{few_visitor.ui.url}/#a-code-of-yesterday")
    expect(page.locator(".table tbody tr")).to_have_count(8)


def test_a_dark_page_is_dark_before_its_script_runs(browser: api.Browser, few_ui: Ui) -> None:
    with visiting(browser, few_ui, theme="dark") as visitor:
        visitor.expected = ("ERR_FAILED",)
        page = visitor.page
        page.route("**/static/page.js", lambda route: route.abort())
        page.goto(f"{few_ui.url}/runs")
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 26)"
        page.evaluate("() => localStorage.setItem('det-theme', 'light')")  # as the key t does
        page.reload()
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(245, 246, 249)"
