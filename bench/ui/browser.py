"""The page in a real Chromium: the time from an address to its content, and its memory.

These are wall-clock times, which a busy machine multiplies. The CPU time of the server and of the page's thread, which
work one after the other, is measured as well: the time on an idle machine is little more.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.ui.server import DetUi

_CHROMIUM = shutil.which("chromium")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
# The content of the document is drawn with the frame that ends before the timer runs.
_WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("%s")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.benchDrawn = performance.now(); }, 0));
}).observe(document, { childList: true, subtree: true });
"""
_TIMES = """() => ({
  drawn: window.benchDrawn,
  answered: Math.max(0, ...performance.getEntriesByType("resource")
    .filter((one) => one.name.includes("/api/curves")).map((one) => one.responseEnd)),
})"""
TABLE_ROW, CURVES = "table.table tbody tr:nth-child(6)", ".uplot canvas"


def why_not() -> str | None:
    """Return what is missing."""
    from determined.built_page import is_built

    if _CHROMIUM is None:
        return "chromium is not installed"
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    return None if is_built() else "the page is not built"


@dataclass(frozen=True)
class Drawn:
    """Seconds from an address, and from the answer with curves, to what is shown; CPU seconds; megabytes of heap."""

    seconds: float
    after_answer: float
    server_cpu: float
    page_cpu: float
    heap: float


class Visitor:
    """A browser that has logged in."""

    def __init__(self, context: Any, server: DetUi) -> None:
        self._context, self._server = context, server
        with self._page() as page:
            page.goto(server.url)
            page.fill("input[type=password]", server.token)
            page.click("text=Sign in")
            page.wait_for_selector("header.bar")

    @contextmanager
    def _page(self) -> Iterator[Any]:
        page = self._context.new_page()
        yield page
        page.close()

    def visit(self, address: str) -> None:
        """Open an address and wait until there are no more requests."""
        with self._page() as page:
            page.goto(self._server.url.rstrip("/") + address)
            page.wait_for_selector("main h1")
            page.wait_for_selector(".loading", state="detached")

    def measure(self, address: str, shows: str) -> Drawn:
        """Open an address in a new tab and wait for its content."""
        with self._page() as page:
            page.goto(f"{self._server.url}static/icon.svg")  # the process of the tab exists
            page.add_init_script(_WATCH % shows)
            session = self._context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            before = self._server.cpu()
            page.goto(self._server.url.rstrip("/") + address)
            page.wait_for_function("() => window.benchDrawn", polling=100)
            server_cpu = self._server.cpu() - before
            metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
            times = page.evaluate(_TIMES)
            session.send("HeapProfiler.collectGarbage")
            heap = session.send("Runtime.getHeapUsage")
        used = heap["usedSize"] + heap.get("backingStorageSize", 0)
        seconds, after = times["drawn"] / 1000, (times["drawn"] - times["answered"]) / 1000
        return Drawn(seconds, after, server_cpu, metrics["TaskDuration"], used / 2**20)


@contextmanager
def visiting(server: DetUi) -> Iterator[Visitor]:
    """Start a browser without a window, and log in."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="bench-") as home, sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home}
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS, env=environment)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(120_000)
        yield Visitor(context, server)
        browser.close()
