"""Write docs/images/: pictures of the web page with the search of `make demo`.

    python -m tools.page_pictures

The search is run in a temporary directory. The web page must be built (`make page`), and Chromium installed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[1]
TARGET = REPOSITORY / "docs" / "images"
EXAMPLE = REPOSITORY / "examples" / "mnist_pytorch"
DET = [sys.executable, "-m", "determined.cli"]
COLUMNS = "id,name,state,best,learning_rate,n_filters1,progress,duration"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "DET_DATA_DIR": f"{scratch}/data", "XDG_STATE_HOME": f"{scratch}/state"}
        create = [*DET, "experiment", "create", str(EXAMPLE / "demo.yaml"), str(EXAMPLE), "--slots", "2"]
        subprocess.run(create, env=environment, check=True)
        command = [*DET, "ui", "--no-browser", "--json"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                started = json.loads(server.stdout.readline())
                _take_all(started["url"].rstrip("/"), Path(started["token_file"]).read_text().strip())
            finally:
                server.send_signal(signal.SIGINT)


def _take_all(url: str, token: str) -> None:
    with sync_playwright() as playwright:
        # As root, Chromium starts without its sandbox only.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.goto(url)
        page.fill("input[type=password]", token)
        page.click("text=Sign in")
        page.wait_for_selector("header.bar")
        _open(page, f"{url}/experiments/1")
        chart = page.locator(".u-over").first
        box = chart.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.2)
        page.screenshot(path=TARGET / "web-page-curves.png")
        _open(page, f"{url}/experiments/1?tab=search")
        page.screenshot(path=TARGET / "web-page-search.png")
        page.emulate_media(color_scheme="dark")
        _open(page, f"{url}/runs?q=experiment+%3D+1&cols={COLUMNS}&sort=best")
        page.screenshot(path=TARGET / "web-page-runs.png")
        browser.close()


def _open(page: Page, address: str) -> None:
    """Open a view and wait for its content."""
    page.goto(address)
    page.wait_for_selector("main h1")
    page.wait_for_selector(".loading", state="detached")


if __name__ == "__main__":
    main()
