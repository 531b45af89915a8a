"""The texts that "Copy as det" and "Copy as Python" put on the clipboard can be run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import playwright.sync_api as api
from playwright.sync_api import expect

from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until
from tests.web.pages.browser import Ui, visiting

VIEWS = [
    "/runs",
    "/runs?q=opt+%3D+sgd",
    "/runs?view=experiments&sel=1-2",
    "/experiments/2",
    "/experiments/1?tab=search",
    "/trials/17",
    "/failures",
    "/compare?trials=17,18",
    "/queue",
    "/models",
    "/models/1",
]
# Commands that change the store or write files are not carried out, but they exist.
CHANGES = {"pause", "activate", "cancel", "kill", "continue", "fork", "archive", "delete"}
DOWNLOADS = {"download", "download-model-def"}


def _copied(page: api.Page, button: api.Locator) -> str:
    """Return the text that a button puts on the clipboard."""
    page.evaluate("() => navigator.clipboard.writeText('')")
    button.click()
    return str(wait_until(lambda: page.evaluate("() => navigator.clipboard.readText()"), "nothing was copied"))


def _copies(page: api.Page) -> Iterator[str]:
    """Return the commands and the programs that the buttons and the first menu of a page copy."""
    for label in ("Copy as det", "Copy as Python"):
        button = page.get_by_role("button", name=label).first
        if button.count():
            yield _copied(page, button)
    menu = page.get_by_role("button", name="Copy", exact=True).and_(page.locator("[aria-haspopup]")).first
    if menu.count():
        menu.click()
        entries = page.locator(".sheet-menu button")
        expect(entries.first).to_be_visible()
        count = entries.count()
        for at in range(count):
            yield _copied(page, entries.nth(at))
            if at + 1 < count:
                menu.click()


def test_copied_commands_and_programs_run(runs: Search, browser: api.Browser, ui: Ui) -> None:
    commands: set[str] = set()
    programs: set[str] = set()
    with visiting(browser, ui, permissions=["clipboard-read", "clipboard-write"]) as visitor:
        for view in VIEWS:
            copies = set(_copies(visitor.open(view)))
            of_det = {text for text in copies if text.startswith("det ")}
            assert of_det, f"no command: {view}"
            assert copies - of_det, f"no program: {view}"
            commands |= of_det
            programs |= copies - of_det
    for arguments in (shlex.split(command)[1:] for command in commands):
        if arguments[1] in CHANGES | DOWNLOADS:
            runs.det(*arguments[:2], "--help")
        else:
            runs.det(*arguments)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(sorted(programs))], env=runs.env(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
