"""The charts as a user sees them: what they draw, what the mouse finds there, and their settings."""

from __future__ import annotations

import random
import re

import playwright.sync_api as api
from playwright.sync_api import expect

from determined.store.experiment_records import Trial
from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until
from tests.web.pages.browser import Visitor

# Some places of a canvas that have a colour: axes, ticks and texts are grey.
COLOURED = """(canvas) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const found = [];
    for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] < 200) continue;
        const most = Math.max(data[at], data[at + 1], data[at + 2]);
        const least = Math.min(data[at], data[at + 1], data[at + 2]);
        if (most - least > 60) found.push(at / 4);
    }
    const every = Math.ceil(found.length / 50);
    return found.filter((_, index) => index % every === 0).map((at) => [at % width, Math.floor(at / width)]);
}"""


def _trials(runs: Search) -> dict[int, Trial]:
    with runs.opened() as store:
        return {trial.id: trial for trial in store.experiments.trials(1)}


def _canvas(page: api.Page, label: str) -> api.Locator:
    """Return the canvas of a chart, in the middle of the window."""
    canvas = page.get_by_role("img", name=re.compile(f"^{label}"))
    expect(canvas).to_be_visible()
    canvas.evaluate("(canvas) => canvas.scrollIntoView({ block: 'center' })")
    return canvas


def _point_at(page: api.Page, canvas: api.Locator, place: tuple[float, float]) -> None:
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + place[0] + 0.5, box["y"] + place[1] + 0.5)


def _tip_of_something_drawn(page: api.Page, label: str) -> str:
    """Return the tooltip of one of the places where the chart has drawn something."""
    canvas = _canvas(page, label)
    places = wait_until(lambda: canvas.evaluate(COLOURED), f"nothing was drawn: {label}")
    _point_at(page, canvas, random.Random(label).choice(places))
    tip = page.locator(".plot", has=canvas).locator(".tip")
    expect(tip).to_be_visible()
    text = tip.inner_text()
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)
    return text


def _named(tip: str) -> int:
    match = re.match(r"trial (\d+)\n", tip)
    assert match is not None, tip
    return int(match[1])


def test_charts_of_hyperparameters_are_drawn_and_name_the_trial_under_the_mouse(runs: Search, visitor: Visitor) -> None:
    trials = _trials(runs)
    page = visitor.open("/experiments/1?tab=hparams&hx=opt&hy=layers")
    tip = _tip_of_something_drawn(page, "Parallel coordinates")
    found = trials[_named(tip)].hparams
    assert f"layers {found['layers']}, " in tip
    assert f"opt {found['opt']}, " in tip
    for name in ("layers", "opt"):
        tip = _tip_of_something_drawn(page, f"loss over {name}")
        assert tip.split("\n")[1].startswith(f"{trials[_named(tip)].hparams[name]}: ")
    tip = _tip_of_something_drawn(page, "Best metric by opt and layers")
    best, listed = re.fullmatch(r"(.*)\n\d+ trials?: ([\d, ]+)", tip).groups()  # type: ignore[union-attr]
    cell = [trials[int(one)] for one in listed.split(", ")]
    assert len({(trial.hparams["opt"], trial.hparams["layers"]) for trial in cell}) == 1
    assert abs(float(best) - min(trial.best for trial in cell if trial.best is not None)) < 1e-3


def test_rungs_are_drawn_and_the_mouse_finds_the_decision_and_its_trial(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1?tab=search")
    tip = _tip_of_something_drawn(page, "How far each of 16 trials came")
    trial = _named(tip)
    expect(page.locator(".decisions li", has_text=tip.split("\n", 1)[1]).first).to_contain_text(f"trial {trial}")
    canvas = _canvas(page, "How far each of 16 trials came")
    canvas.click(position=dict(zip("xy", canvas.evaluate(COLOURED)[0], strict=True)))  # type: ignore[arg-type]
    expect(page.get_by_role("heading", name="Decisions about trial")).to_be_visible()
    expect(page.get_by_role("link", name="Its curve")).to_be_visible()


def test_a_brush_of_the_mouse_filters_the_table_until_the_axis_is_clicked(runs: Search, visitor: Visitor) -> None:
    trials = _trials(runs)
    most = sorted(trial.id for trial in trials.values() if trial.hparams["layers"] == 3)
    page = visitor.open("/experiments/1")
    foot = page.locator(".table-foot")
    expect(foot).to_contain_text("16 trials")
    canvas = _canvas(page, "Parallel coordinates")
    _point_at(page, canvas, (70, 20))  # the upper end of the first axis, which is that of the layers
    page.mouse.down()
    _point_at(page, canvas, (74, 60))
    _point_at(page, canvas, (70, 100))
    page.mouse.up()
    expect(foot).to_contain_text(f"{len(most)} trials of 16")
    assert "brush=layers" in page.url
    assert sorted(map(int, page.locator(".table tbody td:nth-child(2)").all_inner_texts())) == most
    page.get_by_role("link", name="Hyperparameters").click()
    expect(page.get_by_role("img", name=f"loss over opt of {len(most)} trials")).to_be_visible()
    canvas = _canvas(page, "Parallel coordinates")
    _point_at(page, canvas, (70, 60))
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("img", name="loss over opt of 16 trials")).to_be_visible()
    assert "brush" not in page.url


def test_log_axes_smoothing_and_epochs_change_the_curves_and_are_in_the_address(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1?metric=training%2Floss")
    chart = page.get_by_role("application", name="Curves of training/loss")

    def picture() -> str:
        return str(chart.locator("canvas").evaluate("(canvas) => canvas.toDataURL()"))

    expect(chart.locator(".u-over")).to_be_visible()
    assert wait_until(lambda: chart.locator("canvas").evaluate(COLOURED), "no curve was drawn")
    pictures = [picture()]

    def expect_another_picture() -> None:
        wait_until(lambda: picture() not in pictures, "the chart did not change")
        pictures.append(picture())

    for setting, part in (("full range", "range=full"), ("log y", "log=1"), ("log x", "xlog=1")):
        page.get_by_label(setting).check()
        expect_another_picture()
        assert part in page.url
    page.get_by_label("Smoothing").fill("0.9")
    expect_another_picture()
    assert "smooth=0.9" in page.url
    expect(page.locator(".chart-foot").first).to_contain_text("not finite, marked")  # smoothing hides no point
    page.goto(page.url)
    expect(page.get_by_label("log y")).to_be_checked()
    expect(chart.locator(".u-over")).to_be_visible()
    wait_until(lambda: picture() == pictures[-1], "the address did not restore the chart")

    page = visitor.open("/experiments/1")
    chart = page.get_by_role("application", name="Curves of validation/loss")
    chart.locator(".u-over").evaluate("(over) => over.setAttribute('data-before', '')")
    page.get_by_role("button", name="Epochs", exact=True).click()
    expect(chart.locator(".u-over[data-before]")).to_have_count(0)  # drawn again
    expect(chart.locator(".u-over")).to_be_visible()
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip")).to_contain_text("epoch 0.25")  # the first report, after 4 of 16 batches
    assert "axis=epochs" in page.url


def test_a_profile_is_drawn_over_time(visitor: Visitor) -> None:
    page = visitor.open("/trials/3?tab=profile")
    chart = page.get_by_role("application", name="Curves of cpu/host.load")
    expect(page.locator(".chart-foot")).to_contain_text("4 points")
    assert wait_until(lambda: chart.locator("canvas").evaluate(COLOURED), "no curve was drawn")
    chart.focus()
    for value in (10, 35, 20, 80):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".tip")).to_contain_text(re.compile(rf"cpu/host\.load{value} .* s$"))
