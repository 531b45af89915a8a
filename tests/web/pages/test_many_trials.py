"""Charts of more trials and hyperparameters than fit: which are shown, how curves are told apart, chosen and zoomed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.built_page import STATIC
from determined.store.experiment_changes import Change
from determined.store.open import open_store
from tests.helpers.waiting import wait_until
from tests.store.experiments import begin_managed, held_experiment, new_trial
from tests.store.rows import metric
from tests.web.pages.browser import Ui, Visitor, visiting, why_not
from tests.web.server import running_server

TRIALS = 24
HPARAMS = 15
STEPS = 1200  # more than a chart draws
METRICS = 24  # more than fit on a screen


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """A server that shows a search of 24 trials with 15 hyperparameters; trial 1 has a long curve and many metrics."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("many")
    place = str(home / "store.sqlite")
    store = open_store(place)
    lease = held_experiment(store, name="many")
    hparams = [{f"p{at:02}": (number * (at + 3)) % 19 for at in range(HPARAMS)} for number in range(TRIALS)]
    new = tuple(new_trial(number, hparams=chosen) for number, chosen in enumerate(hparams))
    trials = store.experiments.commit(lease, Change(new_trials=new))
    for number, trial in enumerate(trials):
        attempt = begin_managed(store, lease, trial, passed=hparams[number])
        steps = range(STEPS if number == 0 else 5)
        store.write([metric(attempt, "validation", step, {"error": number + 1 - step / STEPS}) for step in steps])
        if number == 0:
            reports = {f"m{at:02}": float(at) for at in range(METRICS)}
            store.write([metric(attempt, "training", step, reports) for step in range(3)])
    store.close()
    environment = {"DET_STORE": place, "XDG_STATE_HOME": str(home / "state"), "XDG_DATA_HOME": str(home)}
    with running_server(STATIC, env=environment) as server:
        yield Ui(server.url.rstrip("/"), server.token, server.login_file, server.process)


@pytest.fixture
def viewer(many: Ui, browser: api.Browser) -> Iterator[Visitor]:
    with visiting(browser, many) as visitor:
        yield visitor


def _chart(page: api.Page) -> api.Locator:
    chart = page.get_by_role("application", name="Curves of")
    expect(chart.locator(".u-over")).to_be_visible()
    return chart


def test_hyperparameters_beyond_the_first_ten_can_be_chosen(viewer: Visitor) -> None:
    page = viewer.open("/experiments/1?tab=hparams")
    expect(page.get_by_text("10 of 15 hyperparameters shown")).to_be_visible()
    axes = page.get_by_role("img", name="Parallel coordinates of 24 trials over p00, p01")
    expect(axes).to_be_visible()
    page.get_by_role("button", name="Axes").click()
    page.get_by_label("Find a hyperparameter").fill("p14")
    page.locator(".columns-list").get_by_label("p14").check()
    expect(page.get_by_text("11 of 15 hyperparameters shown")).to_be_visible()
    page.get_by_label("Find a hyperparameter").fill("p0")
    page.locator(".columns-list").get_by_label("p00").uncheck()
    expect(page.get_by_role("img", name=re.compile("over p01, .*, p09, p14, error"))).to_be_visible()
    expect(page.get_by_role("img", name="error over p14 of 24 trials")).to_be_visible()
    page.get_by_label("across").select_option("p13")
    expect(page.get_by_role("img", name="Best metric by p13 and")).to_be_visible()
    page.goto(page.url)
    expect(page.get_by_role("img", name=re.compile("over p01, .*, p09, p14, error"))).to_be_visible()
    page.get_by_role("link", name="Curves", exact=True).click()
    expect(page.get_by_role("img", name=re.compile("over p01, .*, p09, p14, error"))).to_be_visible()
    page = viewer.open("/experiments/1?brush=p12:0~0.1")
    expect(page.get_by_text("11 of 15 hyperparameters shown")).to_be_visible()
    left = sum((number * 15) % 19 <= 1 for number in range(TRIALS))  # a tenth of the axis from 0 to 18
    expect(page.locator(".table-foot")).to_contain_text(f"{left} trials of 24")


def test_trials_of_one_colour_have_other_lines(viewer: Visitor, tmp_path: Path) -> None:
    page = viewer.open("/compare?trials=2,3,12,22")
    _chart(page)
    lines = page.locator(".legend line").evaluate_all(
        "lines => lines.map(line => [getComputedStyle(line).stroke, line.getAttribute('stroke-dasharray')])"
    )
    assert len({colour for colour, _ in lines}) == 2
    assert len({(colour, dashes) for colour, dashes in lines}) == 4
    heights = []
    for address in (page.url, page.url.replace("2,3,12,22", "2")):
        page.goto(address)
        canvas = _chart(page).locator("canvas")
        with page.expect_download() as download:
            page.get_by_role("button", name="PNG").click()
        file = tmp_path / "chart.png"
        download.value.save_as(file)
        height = int.from_bytes(file.read_bytes()[20:24], "big")
        heights.append(height - canvas.evaluate("canvas => canvas.height"))
    assert heights[0] >= heights[1] + 20  # the picture has a legend if it has several curves


def test_a_curve_is_chosen_by_keys_and_by_a_click(viewer: Visitor) -> None:
    for address in ("/experiments/1", "/compare?trials=1-24"):
        page = viewer.open(address)
        chart = _chart(page)
        page.get_by_text("Legend of 24 trials").click()
        expect(page.locator(".legend a")).to_have_count(TRIALS)
        chart.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Trial 2 is highlighted")).to_be_visible()
        assert "trial=2" in page.url
        expect(page.get_by_role("link", name="Open trial 2")).to_have_attribute("href", "/trials/2")
        chart.locator(".u-over").click(position={"x": 30, "y": 30})
        expect(page.get_by_text("Trial 2 is highlighted")).to_have_count(0)
        expect(page.get_by_text(re.compile(r"Trial \d+ is highlighted"))).to_be_visible()
        page.get_by_role("button", name="Show all alike").click()
        expect(page.get_by_text(re.compile(r"Trial \d+ is highlighted"))).to_have_count(0)
    page = viewer.open("/trials/2")
    page.get_by_role("link", name="Decisions").click()
    expect(page.get_by_role("link", name="Search")).to_have_attribute("aria-current", "page")
    assert "trial=2" in page.url


def test_the_table_has_the_first_and_the_last_value(viewer: Visitor) -> None:
    page = viewer.open("/compare?trials=1")
    expect(page.locator(".chart-foot")).to_contain_text("1,200 points, ")
    page.get_by_role("button", name="Table").click()
    cells = page.locator(".chart-table tbody tr td")
    expect(cells.nth(2)).to_have_text("1")
    expect(cells.nth(3)).to_have_text("8.333e-4")  # 1 - 1199/1200
    page = viewer.open("/compare?trials=1&x=100~200")
    page.get_by_role("button", name="Table").click()
    expect(cells.nth(1)).to_have_text("101")
    expect(cells.nth(2)).to_have_text("1")
    expect(page.locator(".chart-table")).to_contain_text("First and last are of the whole curve")


def test_buttons_zoom_and_move(viewer: Visitor) -> None:
    page = viewer.open("/compare?trials=1")
    _chart(page)

    def shown() -> list[float]:
        found = re.search(r"x=([0-9.]+)(?:~|%7E)([0-9.]+)", page.url)
        return [] if found is None else [float(found[1]), float(found[2])]

    page.get_by_role("button", name="Zoom in").click()
    expect(page).to_have_url(re.compile("x="))
    low, high = shown()
    assert abs(high - low - STEPS / 2) < 10
    page.get_by_role("button", name="Move right").click()
    wait_until(lambda: shown() == [(low + high) / 2, high + (high - low) / 2], "it did not move")
    page.get_by_role("button", name="Move left").click()
    wait_until(lambda: shown() == [low, high], "it did not move back")
    page.get_by_role("button", name="Zoom out").click()
    expect(page).not_to_have_url(re.compile("x="))  # all is shown
    expect(page.get_by_role("button", name="Move left")).to_have_count(0)


def test_charts_that_leave_the_screen_keep_their_height_and_their_table(viewer: Visitor) -> None:
    page = viewer.open("/trials/1?find=training")
    first = page.locator(".grid .chart").first
    first.get_by_role("button", name="Table").click()
    expect(first.locator(".chart-table")).to_be_visible()
    height = first.evaluate("chart => chart.offsetHeight")
    page.evaluate("() => window.scrollTo(0, document.body.scrollHeight)")
    expect(first.locator("canvas")).to_have_count(0)
    assert first.evaluate("chart => chart.offsetHeight") == height
    page.evaluate("() => window.scrollTo(0, 0)")
    expect(first.locator(".chart-table")).to_be_visible()
    assert first.evaluate("chart => chart.offsetHeight") == height
    first.get_by_role("button", name="Table").click()
    wait_until(lambda: first.evaluate("chart => chart.offsetHeight") < height, "a gap stays where the table was")


def _swipe(page: api.Page, x: float, y: float, by: float) -> None:
    """Move a finger up or down, as a screen reports it."""
    session = page.context.new_cdp_session(page)

    def send(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": at_x, "y": at_y} for at_x, at_y in places]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    send("touchStart", (x, y))
    for step in range(1, 11):
        send("touchMove", (x, y + by * step / 10))
    send("touchEnd")
    session.detach()


def test_a_finger_scrolls_the_page_and_brushes_only_near_an_axis(many: Ui, browser: api.Browser) -> None:
    with visiting(browser, many, width=375, has_touch=True, is_mobile=True) as visitor:
        page = visitor.open("/experiments/1?tab=hparams&axes=p00,p01,p02")
        canvas = page.get_by_role("img", name="Parallel coordinates")
        canvas.evaluate("canvas => canvas.scrollIntoView({ block: 'center' })")
        box = canvas.bounding_box()
        assert box is not None
        middle = box["y"] + 200
        before = page.evaluate("() => scrollY")
        _swipe(page, box["x"] + 70, middle, -100)  # on the first axis
        expect(page).to_have_url(re.compile("brush=p00"))
        assert page.evaluate("() => scrollY") == before
        _swipe(page, box["x"] + 112, middle, -100)  # between the axes
        wait_until(lambda: page.evaluate("() => scrollY") > before + 50, "the page did not scroll")
        brushes = re.search("brush=[^&]*", page.url)
        assert brushes is not None
        assert "p01" not in brushes[0]
