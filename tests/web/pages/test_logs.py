"""The log of a trial as a person reads it: searches that take long, the lines after a moment, keys, Back, the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.built_page import STATIC
from determined.store.open import open_store
from determined.store.rows import LogRow
from tests.store.rows import begin
from tests.web.pages.browser import Ui, Visitor, visiting, why_not
from tests.web.server import running_server

COUNT = 1300  # lines: more than two requests of the page, which asks for 500


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Ui]]:
    """A server whose searches end after a page of 100 lines, and the store that it shows: one trial with a log."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("logged")
    place = str(home / "store.sqlite")
    store = open_store(place)
    attempt = begin(store)
    store.write(_lines(attempt.trial_id, 0, COUNT))
    store.close()
    limits = {"api.logs._SECONDS_TO_SEARCH": 0, "api.logs._PAGE": 100}
    environment = {"DET_STORE": place, "XDG_STATE_HOME": str(home / "state"), "XDG_DATA_HOME": str(home)}
    with running_server(STATIC, env=environment, limits=limits) as server:
        yield place, Ui(server.url.rstrip("/"), server.token, server.login_file, server.process)


def _lines(trial: int, first: int, last: int) -> list[LogRow]:
    return [
        LogRow(trial, 1, 0, one, "stdout", f"line {one}.", 1_700_000_000.0 + one, None) for one in range(first, last)
    ]


@pytest.fixture
def reader(logged: tuple[str, Ui], browser: api.Browser) -> Iterator[Visitor]:
    with visiting(browser, logged[1]) as visitor:
        yield visitor


def test_a_search_that_stops_says_how_far_it_came_and_goes_on(reader: Visitor) -> None:
    page = reader.open("/trials/1?tab=log&regex=1&find=line+(1045|3)[.]")
    expect(page.get_by_role("heading", name="No line matches so far")).to_be_visible()
    expect(page.locator(".empty")).to_contain_text(re.compile(r"Searched back to \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"))
    for _ in range(2):
        before = page.locator(".empty span").first.inner_text()
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text(before)).to_have_count(0)
    expect(page.locator(".log li")).to_have_text(re.compile("line 1045[.]"))
    while page.get_by_role("button", name="Continue").count():
        before = page.locator(".log-more span").inner_text()
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text(before)).to_have_count(0)
    expect(page.locator(".log li")).to_have_count(2)
    expect(page.locator(".log li").first).to_contain_text("line 3.")
    expect(page.locator(".log-more")).to_have_count(0)


def test_newer_lines_follow_those_of_a_moment_until_the_log_is_live(logged: tuple[str, Ui], reader: Visitor) -> None:
    page = reader.open(f"/trials/1?tab=log&at={1_700_000_000 + 400}")
    expect(page.locator(".log .here")).to_contain_text("line 400.")
    expect(page.locator(".log .here")).to_be_in_viewport()
    page.get_by_role("button", name="Older lines").click()
    expect(page.locator(".log li").first).to_contain_text("line 0.")
    expect(page.get_by_role("button", name="Older lines")).to_have_count(0)
    expect(page.locator(".log li", has_text="line 149.")).to_be_in_viewport()  # nothing has jumped
    expect(page.locator(".log .here")).not_to_be_in_viewport()
    for last in (1149, 1299):
        page.get_by_role("button", name="Newer lines").click()
        expect(page.locator(".log li").last).to_contain_text(f"line {last}.")
    expect(page.get_by_role("button", name="Newer lines")).to_have_count(0)
    page.locator(".log").evaluate("log => { log.scrollTop = log.scrollHeight; }")
    expect(page.locator(".table-foot")).to_contain_text(re.compile("(?<!not )following"))
    store = open_store(logged[0])
    store.write(_lines(1, COUNT, COUNT + 1))
    store.close()
    expect(page.locator(".log li").last).to_contain_text(f"line {COUNT}.")


def test_an_arrow_key_begins_at_the_last_line_of_a_log_that_is_followed(reader: Visitor) -> None:
    page = reader.open("/trials/1?tab=log")
    last = page.locator(".log li").last
    expect(last).to_contain_text("line ")
    page.locator(".log").focus()
    for key in ("ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
        expect(last).to_have_class(re.compile("here"))
        expect(last).to_be_in_viewport()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".log .here")).to_have_text(page.locator(".log li").nth(-2).inner_text(), use_inner_text=True)
    expect(page.locator(".table-foot")).to_contain_text(re.compile("(?<!not )following"))


def test_the_search_field_follows_back(reader: Visitor) -> None:
    page = reader.open("/trials/1?tab=log&find=line+12")
    page.evaluate("() => history.pushState(null, '', '/trials/1?tab=log&find=line+77')")
    page.evaluate("() => window.dispatchEvent(new PopStateEvent('popstate'))")
    field = page.get_by_label("Search the log")
    expect(field).to_have_value("line 77")
    page.go_back()
    expect(field).to_have_value("line 12")
    field.press("End")
    field.press_sequentially("3", delay=100)
    expect(field).to_have_value("line 123")
    expect(page).to_have_url(re.compile(r"find=line\+123"))
    expect(field).to_have_value("line 123")


def test_the_log_is_downloaded_without_its_filters(reader: Visitor, tmp_path: Path) -> None:
    page = reader.open("/trials/1?tab=log&find=line+12")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the log").click()
    assert download.value.suggested_filename == "trial_1_log.txt"
    download.value.save_as(tmp_path / "log.txt")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert lines[0] == "[2023-11-14T22:13:20.000+00:00] [rank=0] line 0."
    assert len(lines) >= COUNT
