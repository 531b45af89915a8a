"""The output of a notebook in a real browser: its charts draw in their frames, and nothing leaves them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.store.open import open_store
from tests.helpers.curve_stores import falling, searched
from tests.helpers.notebooks import started
from tests.web.pages.browser import AXE, why_not

HOSTILE = "</script><script>parent.document.title='hacked'</script><img src=x onerror=alert(1)>\"'<!-- \u202eabc\u2028"
# As Jupyter inserts HTML into its page; scripts in it are not executed, but event handlers would be.
NOTEBOOK = """<!doctype html><html><head><meta charset="utf-8"><title>notebook</title></head><body>
<script type="application/json" id="outputs">{outputs}</script>
<script>
for (const html of JSON.parse(document.getElementById("outputs").textContent)) {{
  const cell = document.createElement("div");
  cell.className = "output";
  cell.innerHTML = html;
  document.body.append(cell);
}}
</script></body></html>"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with outputs of a notebook: a trial, an experiment, a comparison, and the best of many trials."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("notebook")
    place = str(home / "store.sqlite")
    store = open_store(place)
    hostile, trials = searched(
        store,
        [{"lr": 0.1, HOSTILE: 1}, {"lr": 0.2, HOSTILE: HOSTILE}, {"lr": 0.3, HOSTILE: "z" * 10_000}],
        name=HOSTILE + "z" * 10_000,
        report=lambda number, step: {
            **falling(number, step),
            HOSTILE: step,
            **({"error": float("nan")} if step == 50 else {}),
        },
    )
    large, _ = searched(store, [{"lr": number} for number in range(60)])
    store.close()
    cells = [
        f"client.get_trial({trials[0]})",
        f"client.get_experiment({hostile})",
        f"client.compare({trials}, metric={HOSTILE!r})",
        f"client.compare(client.get_experiment({large}))",
    ]
    with ThreadPoolExecutor(1) as pool:  # in this thread Playwright has an event loop
        outputs = pool.submit(executed, home, place, cells).result()
    page = home / "notebook.html"
    page.write_text(NOTEBOOK.format(outputs=json.dumps(outputs).replace("<", "\\u003c")))
    return page


def executed(home: Path, place: str, cells: list[str]) -> list[str]:
    """Return the HTML that the cells of a real notebook show."""
    outputs = []
    with started(home) as running:
        running.run(f"from determined.experimental import client\nclient.login({place!r})")
        for code in cells:
            cell = running.run(code)
            assert not cell.error
            outputs += cell.shown("text/html")
    return outputs


@dataclass
class Reader:
    """A browser that shows the notebook, the messages of its console, and what its frames tried to load."""

    page: api.Page
    said: list[str]

    def chart(self, number: int) -> api.FrameLocator:
        """Return the chart of a cell after it was drawn."""
        cell = self.page.locator(".output").nth(number)
        expect(cell.locator("iframe")).to_have_count(1)
        cell.locator("iframe").scroll_into_view_if_needed()  # a browser draws no frames that are out of sight
        chart = cell.frame_locator("iframe")
        expect(chart.locator(".u-over")).to_be_visible()
        return chart


@contextmanager
def reading(browser: api.Browser, notebook: Path, theme: str = "light") -> Iterator[Reader]:
    context = browser.new_context(
        viewport={"width": 1000, "height": 900}, color_scheme="dark" if theme == "dark" else "light"
    )
    try:
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: None if request.url == notebook.as_uri() else said.append(request.url))
        page.goto(notebook.as_uri())
        yield Reader(page, said)
        assert page.title() == "notebook"
        assert said == []
    finally:
        context.close()


def colours(chart: api.FrameLocator) -> int:
    """Return how many colours the chart has; an empty canvas has one."""
    found: int = chart.locator(".plot canvas").evaluate(
        """canvas => new Set(new Uint32Array(
             canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    )
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_output_draws_its_chart(browser: api.Browser, notebook: Path, theme: str) -> None:
    with reading(browser, notebook, theme) as reader:
        backgrounds = set()
        for number, points in enumerate(["20 points", "60 points", "60 points", "1,000 points"]):
            chart = reader.chart(number)
            expect(chart.locator(".chart-foot")).to_contain_text(points)
            assert colours(chart) > 10
            backgrounds.add(chart.locator("body").evaluate("body => getComputedStyle(body).backgroundColor"))
            size = chart.locator("html").evaluate(
                "html => ({ wide: html.scrollWidth - innerWidth, high: html.scrollHeight - innerHeight })"
            )
            assert size == {"wide": 0, "high": 0}  # nothing has to be scrolled
        assert backgrounds == {"rgb(255, 255, 255)" if theme == "light" else "rgb(23, 27, 36)"}
        expect(reader.page.locator(".output").nth(3)).to_contain_text("50 of 60 trials are shown, the best")


def test_hostile_text_is_text_inside_and_outside_of_the_frames(browser: api.Browser, notebook: Path) -> None:
    with reading(browser, notebook) as reader:
        page = reader.page
        chart = reader.chart(2)
        assert page.evaluate("document.scripts.length") == 2
        assert page.evaluate("document.querySelectorAll('.output :is(script, img, style, link, svg, a)').length") == 0
        expect(page.locator(".output").nth(2).locator("th", has_text="onerror=alert(1)")).to_have_count(1)
        assert chart.locator("html").evaluate("() => document.scripts.length") == 2
        assert chart.locator("img").count() == 0
        expect(chart.locator("select option:checked")).to_have_text(HOSTILE[:79])
        expect(chart.locator(".legend li").nth(1)).to_contain_text("trial 2")
        chart.get_by_role("button", name="Table").click()
        expect(chart.locator(".chart-table tbody tr").nth(1)).to_contain_text(f"lr=0.2, {HOSTILE}=")
        assert chart.locator(".legend a, .chart-table a").count() == 0  # there are no other views


def test_a_frame_reaches_neither_the_notebook_nor_a_server(browser: api.Browser, notebook: Path) -> None:
    with reading(browser, notebook) as reader:
        reader.chart(0)
        (frame, *others) = [frame for frame in reader.page.frames if frame != reader.page.main_frame]
        assert len(others) == 3
        assert frame.evaluate("origin") == "null"
        for attempt in ("parent.document.title", "localStorage.length", "document.cookie"):
            assert frame.evaluate(
                f"() => {{ try {{ return {attempt}; }} catch (error) {{ return error.name; }} }}"
            ) == ("SecurityError")


def test_a_chart_is_used_with_mouse_and_keys(browser: api.Browser, notebook: Path) -> None:
    with reading(browser, notebook) as reader:
        chart = reader.chart(1)
        expect(chart.locator(".chart-foot")).to_contain_text("3 values not finite, marked")
        expect(chart.locator(".chart-foot")).to_contain_text("1 of 3 trials failed")
        chart.locator("select").select_option("validation/accuracy")
        expect(chart.locator(".chart-foot")).not_to_contain_text("not finite")
        chart.locator(".u-over").hover()
        expect(chart.locator(".tip")).to_contain_text("trial")
        box = chart.get_by_role("application")
        box.focus()
        box.press("+")
        expect(chart.get_by_role("button", name="Show all")).to_be_visible()
        expect(chart.get_by_role("button", name="PNG")).to_have_count(0)  # a sandboxed frame cannot save files
        box.press("0")
        expect(chart.get_by_role("button", name="Show all")).to_have_count(0)
        chart.get_by_label("log y").check()
        expect(chart.locator(".u-over")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: api.Browser, notebook: Path, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is missing: `make page` installs it")
    with reading(browser, notebook, theme) as reader:
        expect(reader.chart(1).locator(".legend")).to_be_visible()
        frame = reader.page.locator("iframe").nth(1).element_handle().content_frame()
        assert frame is not None
        frame.evaluate(AXE.read_text())
        found = frame.evaluate("() => axe.run({ resultTypes: ['violations'] })")["violations"]
        serious = [one["id"] for one in found if one["impact"] in ("serious", "critical")]
        assert serious == []
