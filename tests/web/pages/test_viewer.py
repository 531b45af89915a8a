"""Effects of the viewer: a hidden tab does not poll, a quiet store is polled less often, times are local."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until
from tests.web.pages.browser import Ui, Visitor, visiting

# Counts polls where they are made, and notes for how long the page then waits: events of the browser about requests
# may come later than the answer to the next command of the test.
OBSERVE = """() => {
    const [ask, wait] = [window.fetch, window.setTimeout];
    window.polls = 0;
    window.waits = [];
    window.fetch = (path, ...more) => {
        if (String(path).startsWith("/api/changes")) window.polls++;
        return ask(path, ...more);
    };
    window.setTimeout = (act, delay, ...more) => {
        if (delay >= 1000) window.waits.push(delay);
        return wait(act, delay, ...more);
    };
}"""
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
SECOND = 1000  # milliseconds


def _polls(page: api.Page) -> int:
    return int(page.evaluate("() => window.polls"))


def _waits(page: api.Page, count: int) -> list[int]:
    """Return how long the page waited after each of its first N polls."""
    found: list[int] = []

    def are_all() -> bool:
        found[:] = page.evaluate("() => window.waits")
        return len(found) == count

    wait_until(are_all, f"the page did not poll {count} times")
    return found


@pytest.fixture
def watched(visitor: Visitor) -> api.Page:
    """Open a page on which nothing happens; its timers wait for the test, and it has received one answer to a poll."""
    page = visitor.page
    page.clock.install()
    visitor.open("/runs")
    page.wait_for_load_state("networkidle")
    page.clock.pause_at(page.evaluate("() => Date.now()") + 10 * SECOND)
    page.evaluate(f"() => {{ ({OBSERVE})(); ({HIDE})(false); }}")  # polls at once, or a poll is on its way
    wait_until(lambda: page.evaluate("() => window.waits.length"), "the page does not poll")
    page.evaluate("() => { window.polls = window.waits.length = 0; }")
    return page


def test_a_hidden_tab_does_not_poll_and_asks_at_once_when_it_is_seen(watched: api.Page) -> None:
    watched.clock.run_for(SECOND)
    assert _waits(watched, 1) == [SECOND]
    watched.evaluate(HIDE, True)
    watched.clock.run_for(600 * SECOND)
    assert _polls(watched) == 1
    watched.evaluate(HIDE, False)
    assert _polls(watched) == 2
    assert _waits(watched, 2) == [SECOND, SECOND]
    watched.clock.run_for(SECOND)
    assert _polls(watched) == 3


def test_a_quiet_store_is_asked_less_often(watched: api.Page) -> None:
    quiet = 0
    while (waits := _waits(watched, quiet) if quiet else [SECOND])[-1] == SECOND:
        quiet += 1
        assert quiet <= 60, "it is asked as often as before"
        watched.clock.run_for(SECOND)
    assert waits[-1] == 5 * SECOND
    watched.clock.run_for(4 * SECOND)
    assert _polls(watched) == quiet
    watched.clock.run_for(SECOND)
    assert _polls(watched) == quiet + 1


def test_times_are_those_of_the_viewers_zone(runs: Search, browser: api.Browser, ui: Ui) -> None:
    zone = timezone(timedelta(hours=5, minutes=45))
    with runs.opened() as store:
        created = datetime.fromtimestamp(store.experiments.get(1).created, zone)
    with visiting(browser, ui, timezone_id="Asia/Kathmandu") as visitor:
        page = visitor.open("/experiments/1")
        fact = page.locator(".facts div", has_text="Created")
        expect(fact).to_contain_text(created.strftime("%Y-%m-%d %H:%M"))
        page = visitor.open("/trials/17?tab=log")
        line = page.locator(".log li time").first
        stamp = line.get_attribute("datetime")
        assert stamp is not None
        expect(line).to_have_text(datetime.fromisoformat(stamp).astimezone(zone).strftime("%H:%M:%S"))
