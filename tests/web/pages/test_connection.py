"""A server that does not answer for a while, and a browser that is cut off from it."""

from __future__ import annotations

import signal

import playwright.sync_api as api
from playwright.sync_api import expect

from tests.helpers.searches import Search
from tests.web.pages.browser import Visitor, running_ui, visiting

PATIENCE = 60_000  # milliseconds


def test_a_server_that_stands_still_is_noticed(few: Search, browser: api.Browser) -> None:
    with running_ui(few) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/runs")
        ui.process.send_signal(signal.SIGSTOP)  # connections stay open, as those of a tunnel whose end is gone
        try:
            expect(page.locator("main > .notice")).to_contain_text("has not answered for", timeout=PATIENCE)
            expect(page.locator(".table tbody tr")).to_have_count(8)
        finally:
            ui.process.send_signal(signal.SIGCONT)
        expect(page.locator("main > .notice")).to_have_count(0, timeout=PATIENCE)


def test_what_could_not_be_read_is_read_when_the_server_answers_again(few_visitor: Visitor) -> None:
    few_visitor.expected = ("ERR_INTERNET_DISCONNECTED",)
    page = few_visitor.open("/runs")
    page.context.set_offline(True)
    page.get_by_role("link", name="Models").click()
    expect(page.locator("main")).to_contain_text("The server does not answer")
    page.context.set_offline(False)
    expect(page.locator("main")).to_contain_text("No models are registered", timeout=PATIENCE)
    expect(page.locator("main .notice")).to_have_count(0)
