"""Every page and tab of the web UI with data of real runs, in a real browser under the real policy."""

from __future__ import annotations

import re

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.searches import Search
from tests.web.pages.browser import AXE, Ui, Visitor, running_ui, serious_problems, visiting

VIEWS = {
    "runs": "/runs",
    "experiments": "/runs?view=experiments",
    "curves": "/experiments/1",
    "hparams": "/experiments/1?tab=hparams",
    "search": "/experiments/1?tab=search",
    "experiment-checkpoints": "/experiments/1?tab=checkpoints",
    "code": "/experiments/1?tab=code",
    "difference": "/experiments/1?tab=code&other=2",
    "config": "/experiments/1?tab=config",
    "experiment-log": "/experiments/1?tab=log",
    "notes": "/experiments/1?tab=notes",
    "failures": "/failures",
    "trial": "/trials/3",
    "trial-hparams": "/trials/3?tab=hparams",
    "attempts": "/trials/3?tab=attempts",
    "checkpoints": "/trials/3?tab=checkpoints",
    "profile": "/trials/3?tab=profile",
    "log": "/trials/3?tab=log",
    "compare": "/compare?trials=1-3,17",
    "queue": "/queue",
    "models": "/models",
    "model": "/models/1",
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_shows_its_data_and_no_problem(name: str, visitor: Visitor) -> None:
    page = visitor.open(VIEWS[name])
    expect(page.locator("main")).not_to_be_empty()
    expect(page.locator("[role=alert]")).to_have_count(0)
    assert page.title() != "hacked"
    assert page.locator("main script, main img, main b, main i:not(.meter i), main u").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_axe_finds_nothing_serious(theme: str, width: int, browser: api.Browser, ui: Ui) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is missing: `make page` installs it")
    with visiting(browser, ui, width=width, theme=theme, login=False) as visitor:
        page = visitor.page
        page.goto(ui.url)
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        found = [f"login: {problem}" for problem in _problems_of(page)]
    with visiting(browser, ui, width=width, theme=theme) as visitor:
        for name in (*VIEWS, "dialog"):
            page = visitor.open(VIEWS[name if name in VIEWS else "curves"])
            if name == "dialog":
                page.get_by_role("button", name="Actions").click()
                page.get_by_role("button", name="Fork", exact=True).click()
                expect(page.get_by_role("dialog")).to_be_visible()
            found += [f"{name}: {problem}" for problem in _problems_of(page)]
    assert found == [], "\n".join(found)


def _problems_of(page: api.Page) -> list[str]:
    """Return what makes the page unusable for some people."""
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [*serious_problems(page), *([f"{wide} pixels wider than the window"] if wide > 0 else [])]


def test_the_login_file_leads_in_once_and_its_code_is_not_kept(browser: api.Browser, runs: Search) -> None:
    with running_ui(runs) as ui:
        match = re.search(r"#([\w-]+)", ui.login_file.read_text())
        assert match is not None
        with visiting(browser, ui, login=False) as visitor:
            page = visitor.page
            page.goto(ui.login_file.as_uri())
            expect(page.locator("table")).to_contain_text("Stopped early")
            assert page.url == f"{ui.url}/"
            page.reload()
            expect(page.locator("table")).to_contain_text("Stopped early")  # the session is kept
            stored = page.evaluate("() => JSON.stringify({ ...localStorage, ...sessionStorage })")
            assert match[1] not in stored
            assert ui.token not in stored
            page.evaluate("() => localStorage.clear()")  # the cookie alone, which other ports get as well
            visitor.expected = ("401",)
            page.reload()
            expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        with visiting(browser, ui, login=False) as visitor:
            visitor.expected = ("401",)
            page = visitor.page
            page.goto(ui.login_file.as_uri())
            expect(page.locator("[role=alert]")).to_contain_text("code")
            assert page.url == f"{ui.url}/"
            expect(page.locator("table")).to_have_count(0)
            page.fill("input[type=password]", ui.token)
            page.click("text=Sign in")
            expect(page.locator("table")).to_contain_text("Stopped early")


def test_filter_sort_columns_and_selection_are_in_the_address(visitor: Visitor) -> None:
    page = visitor.open("/runs")
    expect(page.locator(".table-foot")).to_contain_text("18 trials")
    page.keyboard.press("/")
    expect(page.locator("[data-filter]")).to_be_focused()
    page.keyboard.type("state = ERR")
    expect(page.locator("[role=option]").first).to_have_text("ERROR")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".table-foot")).to_contain_text(" of ")
    states = set(page.locator(".table tbody .badge").all_inner_texts())
    assert {re.sub(r"\W", "", state) for state in states} == {"Error"}
    page.click("text=Columns")
    page.fill("[aria-label='Find a column']", "layers")
    page.locator(".columns-list label", has_text="layers").click()
    page.keyboard.press("Escape")
    page.locator("th button", has_text="layers").click()
    page.locator("tbody input[type=checkbox]").first.check()
    expect(page.locator(".chosen-bar")).to_contain_text("1 trial selected")
    # Changes in quick succession are written to the address together.
    page.wait_for_url(re.compile("sel="))
    address = page.url
    assert all(part in address for part in ("q=state", "cols=", "sort=layers", "sel="))
    before = page.locator(".table tbody").inner_text()
    page.goto(address)
    expect(page.locator(".chosen-bar")).to_contain_text("1 trial selected")
    assert page.locator(".table tbody").inner_text() == before
    expect(page.locator("[data-filter]")).to_have_value(re.compile("state = ERROR"))


def test_a_mistake_in_the_filter_is_shown_at_its_place(visitor: Visitor) -> None:
    page = visitor.open("/runs")
    page.fill("[data-filter]", "lr < 1 and lrr > 2")
    page.keyboard.press("Escape")
    expect(page.locator("#filter-mistake mark")).to_have_text("lrr")
    expect(page.locator("#filter-mistake")).to_contain_text("There is no column")


def test_keyboard_only_from_the_table_to_a_comparison(visitor: Visitor) -> None:
    page = visitor.open("/runs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("dialog")).to_contain_text("compare the selected rows")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.locator(".table-frame").focus()
    for key in ("j", "x", "j", "x", "c"):
        page.keyboard.press(key)
    page.wait_for_url("**/compare?trials=*")
    expect(page.locator("h1")).to_contain_text("Compare 2 trials")
    expect(page.locator("tr.differs").first).to_be_visible()


def test_curves_have_a_spike_a_nan_and_crosses_and_zoom_fetches_finer_points(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1?metric=training%2Floss")
    expect(page.locator(".u-over")).to_have_count(1)
    expect(page.locator(".chart-foot").first).to_contain_text("not finite, marked")
    expect(page.locator(".chart-foot").first).to_contain_text("failed, ended by")
    finer_points: list[api.Route] = []
    page.route(lambda url: "/api/curves" in url and "from=" in url, lambda route: finer_points.append(route))
    box = page.locator(".u-over").bounding_box()
    assert box is not None
    with page.expect_request(lambda request: "/api/curves" in request.url and "from=" in request.url):
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 80, steps=4)
        page.mouse.up()
    assert "x=" in page.url
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
    expect(page.locator(".tip")).to_contain_text("trial")
    # The chart is drawn again when the points arrive. A pointer that rests on it still has its tooltip.
    page.locator(".u-over").evaluate("(over) => over.setAttribute('data-before', '')")
    with page.expect_response(lambda answer: "/api/curves" in answer.url and "from=" in answer.url) as response:
        finer_points.pop().continue_()
    assert response.value.ok
    expect(page.locator(".u-over[data-before]")).to_have_count(0)
    expect(page.locator(".tip")).to_contain_text("trial")
    page.locator(".chart-foot button", has_text="Table").first.click()
    expect(page.locator(".chart-table table").first).to_contain_text("Greatest")
    with page.expect_download() as download:
        page.locator(".chart-foot button", has_text="CSV").first.click()
    text = download.value.path().read_text()
    assert text.startswith("batches,")
    with page.expect_download() as picture:
        page.locator(".chart-foot button", has_text="PNG").first.click()
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")


def test_a_brush_filters_the_table_and_the_curves(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1")
    expect(page.locator(".table-foot")).to_contain_text("16 trials")
    page.locator("summary", has_text="Brush by keyboard").first.click()
    page.get_by_label("Axis to brush").first.select_option("opt")
    page.get_by_label("to %").first.fill("40")
    page.keyboard.press("Enter")
    page.get_by_label("to %").first.blur()
    expect(page.locator(".table-foot")).to_contain_text("of 16")
    assert "brush=opt" in page.url


def test_a_brush_filters_the_merged_log(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1")
    page.locator("summary", has_text="Brush by keyboard").first.click()
    page.get_by_label("Axis to brush").first.select_option("opt")
    page.get_by_label("from %").first.fill("90")
    page.keyboard.press("Enter")
    page.get_by_label("from %").first.blur()
    expect(page.locator(".table-foot")).to_contain_text("of 16")
    left = {text.strip() for text in page.locator(".table tbody tr a[href^='/trials/']").all_inner_texts()}
    page.get_by_role("link", name="Log", exact=True).click()
    expect(page.locator(".notice")).to_contain_text(f"Brushes leave {len(left)} of 16 trials")
    expect(page.locator(".log .who").first).to_be_visible()
    shown = set(page.locator(".log .who").all_inner_texts())
    assert shown == {f"trial {number}" for number in left}
    assert 0 < len(left) < 16
    page.reload()
    expect(page.locator(".notice")).to_contain_text("Brushes leave")
    page.get_by_role("button", name="Clear the brushes").click()
    expect(page.locator(".notice")).to_have_count(0)
    page.wait_for_function(
        "before => new Set([...document.querySelectorAll('.log .who')].map(one => one.textContent)).size > before",
        arg=len(left),
    )
    page = visitor.open("/experiments/1?tab=log&brush=lr:0.0001~0.0002")
    expect(page.locator("main")).to_contain_text("No trial is inside the brushes")


def test_code_is_compared_side_by_side(visitor: Visitor) -> None:
    page = visitor.open("/compare?trials=1,17")

    def side(name: str) -> api.Locator:
        return page.locator("label", has_text=re.compile(f"^{name}")).locator("select")

    program = page.get_by_role("region", name="train.py: experiment 1 and experiment 2")
    changed = program.locator("tr", has=page.locator("mark"))
    expect(changed).to_have_count(1)
    assert [text.strip() for text in changed.locator("td").all_inner_texts()][1::2] == [
        "LENGTH = 64",
        "LENGTH = 32 + 32",
    ]
    assert changed.locator("mark").all_inner_texts() == ["64", "32 + 32"]
    expect(page.get_by_role("region", name="notes.txt")).to_contain_text("<script>document.title='hacked'</script>")
    side("left").select_option("2")
    side("right").select_option("1")
    expect(page.get_by_role("region", name="train.py: experiment 2 and experiment 1")).to_be_visible()
    assert "left=2&right=1" in page.url
    side("right").select_option("2")
    expect(page.locator("main")).to_contain_text("The code is that of experiment 2")
    visitor.open("/compare?trials=1-3")
    expect(page.get_by_role("heading", name="Code", exact=True)).to_be_visible()
    expect(page.get_by_text("Code side by side")).to_have_count(0)
    assert page.title() != "hacked"


def test_failures_name_what_they_share(visitor: Visitor) -> None:
    page = visitor.open("/failures")
    expect(page.locator("main")).to_contain_text("opt = lion")
    expect(page.locator("main")).to_contain_text("lion cannot roar")
    expect(page.locator("main")).to_contain_text("det experiment fork")


def test_decisions_are_replayed_by_the_slider(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1?tab=search")
    all_of_them = page.locator(".decisions li").count()
    page.get_by_label("Replay").focus()
    page.keyboard.press("Home")
    expect(page.locator(".decisions li")).to_have_count(0)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".decisions li")).to_have_count(3)
    assert "step=3" in page.url
    assert all_of_them > 16


def test_the_log_is_searched_and_shows_colours(visitor: Visitor) -> None:
    page = visitor.open("/trials/17?tab=log")
    expect(page.locator(".log .a-2", has_text="begins")).to_be_visible()
    page.keyboard.press("/")
    expect(page.locator("[data-filter]")).to_be_focused()
    page.keyboard.type("batch 8:")
    expect(page.locator(".log li")).to_have_count(1)


def test_an_unknown_id_and_an_unknown_page_say_so(visitor: Visitor) -> None:
    visitor.expected = ("404",)
    for address in ("/trials/9999", "/experiments/9999"):
        visitor.page.goto(visitor.ui.url + address)
        expect(visitor.page.locator("[role=alert]")).to_contain_text("9999")
    visitor.page.goto(visitor.ui.url + "/nowhere")
    expect(visitor.page.locator("main")).to_contain_text("no such page")
