"""The address follows what the user does, also if that is more than a browser writes into its history."""

from __future__ import annotations

import re
from pathlib import Path

import playwright.sync_api as api
from playwright.sync_api import expect

from tests.web.pages.browser import Ui, launch, visiting

MOVES = """(slider) => {
  for (let step = 0; step <= 600; step++) {
    slider.value = String(0.99 * Math.abs(Math.sin(step)));
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
  slider.value = "0.37";
  slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""


def test_a_slider_is_followed_although_the_browser_limits_its_history(
    browser: api.Browser, few_ui: Ui, tmp_path: Path
) -> None:
    # Playwright switches this protection off, which people have: 200 entries in 10 s.
    protected = launch(browser.browser_type, tmp_path, ignore_default_args=["--disable-ipc-flooding-protection"])
    try:
        with visiting(protected, few_ui) as visitor:
            page = visitor.open("/compare?trials=1,2")
            smoothing = page.get_by_label("Smoothing")
            smoothing.evaluate(MOVES)
            expect(page.locator(".chart-tools .number")).to_have_text("0.37")
            expect(smoothing).to_have_value("0.37")
            page.get_by_label("log y").check()
            expect(page).to_have_url(re.compile(r"smooth=0\.37&log=1"))
            smoothing.press("ArrowRight")
            page.get_by_role("link", name="Runs", exact=True).click()
            expect(page.locator("h1")).to_have_text("Runs")
            page.go_back()
            expect(page.locator(".chart-tools .number")).to_have_text("0.38")
            expect(page).to_have_url(re.compile(r"smooth=0\.38&log=1"))
    finally:
        protected.close()
