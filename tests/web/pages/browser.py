"""A real Chromium that opens a real `det ui`; an error on its console fails the test."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import playwright.sync_api as api

from determined.built_page import is_built
from tests.helpers.ranks import free_port
from tests.helpers.searches import DET, Search

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).resolve().parents[3] / "page" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def launch(kind: api.BrowserType, home: Path, **options: Any) -> api.Browser:
    """Start Chromium without a window; `home` is for its caches."""
    environment: dict[str, str | float | bool] = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    return kind.launch(executable_path=CHROMIUM, args=FLAGS, env=environment, **options)


def why_not() -> str | None:
    """Return why these tests cannot run here, with the command that changes it."""
    if CHROMIUM is None:
        return "chromium is missing: `make system-deps` installs it"
    if not is_built():
        return "the web page is not built: `make page` builds it"
    return None


@dataclass(frozen=True)
class Ui:
    """A running `det ui`."""

    url: str
    token: str
    login_file: Path
    process: subprocess.Popen[str]


@contextlib.contextmanager
def running_ui(search: Search) -> Iterator[Ui]:
    """Run `det ui` on the store of a search."""
    process = subprocess.Popen(
        # A separate port: the default one would be taken by the server of another test when this one ends.
        [*DET, "ui", "--no-browser", "--json", "--port", str(free_port())],
        env=search.env(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        token_file = Path(said["token_file"])
        login_file = token_file.with_name(token_file.name.replace("token-", "login-", 1) + ".html")
        yield Ui(said["url"].rstrip("/"), token_file.read_text().strip(), login_file, process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@dataclass
class Visitor:
    """A browser context that is logged in, and the messages of its console."""

    ui: Ui
    page: api.Page
    said: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def open(self, address: str) -> api.Page:
        """Open an address and wait for its content."""
        self.page.goto(self.ui.url + address)
        self.page.wait_for_selector("main h1")
        self.page.wait_for_selector(".loading", state="detached")
        return self.page

    def check(self) -> None:
        """Fail if the console showed an error that the test did not cause on purpose."""
        found = [line for line in self.said if not any(part in line for part in self.expected)]
        assert found == []


@contextlib.contextmanager
def visiting(
    browser: api.Browser, ui: Ui, *, width: int = 1280, theme: str = "light", login: bool = True, **options: Any
) -> Iterator[Visitor]:
    """Return a fresh browser profile that has logged in with the token; `options` are those of `new_context`."""
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if theme == "dark" else "light",
        accept_downloads=True,
        **options,
    )
    try:
        context.set_default_timeout(60_000)
        page = context.new_page()
        visitor = Visitor(ui, page)
        page.on("console", lambda message: visitor.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: visitor.said.append(str(error)))
        if login:
            page.goto(ui.url)
            page.fill("input[type=password]", ui.token)
            page.click("text=Sign in")
            page.wait_for_selector("header.bar")
        yield visitor
        visitor.check()
    finally:
        context.close()


def serious_problems(page: api.Page) -> list[str]:
    """Return what axe finds on a page that makes it unusable for some people."""
    page.evaluate(AXE.read_text())
    result = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:200]}"
        for violation in result["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
