"""Tables by clicking: several sort columns, order and pinning of columns, baselines, actions on a selection."""

from __future__ import annotations

from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from tests.helpers.searches import Search
from tests.store.experiments import with_trials
from tests.web.pages.browser import Visitor, running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL


def _column(page: api.Page, number: int) -> list[str]:
    """Return the texts of a column, from the top; the first one is that of the check boxes."""
    return [text.strip() for text in page.locator(f".table tbody td:nth-child({number})").all_inner_texts()]


def test_sorting_by_two_columns_and_baselines_on_top(runs: Search, visitor: Visitor) -> None:
    with runs.opened() as store:
        trials = [trial for experiment in (1, 2) for trial in store.experiments.trials(experiment)]
    page = visitor.open("/runs?cols=id,opt,layers,best")
    heading = page.locator(".table thead th")
    heading.nth(2).get_by_role("button").click()
    heading.nth(3).get_by_role("button").click(modifiers=["Shift"])
    heading.nth(3).get_by_role("button").click(modifiers=["Shift"])
    expect(heading.nth(2)).to_have_text("opt↑1")
    expect(heading.nth(3)).to_have_text("layers↓2")
    expect(heading.nth(3)).to_have_attribute("aria-sort", "descending")
    shown = list(zip(_column(page, 3), map(int, _column(page, 4)), strict=True))
    expected = [(str(trial.hparams["opt"]), int(trial.hparams["layers"])) for trial in trials]
    assert shown == sorted(expected, key=lambda pair: (pair[0], -pair[1]))

    last = _column(page, 2)[-1]
    page.get_by_label(f"Select {last}", exact=True).check()
    page.get_by_role("button", name="Pin on top").click()
    expect(page.locator("tr.baseline")).to_have_count(1)
    expect(page.locator(".table tbody tr").first).to_have_class("chosen here baseline")
    page.fill("[data-filter]", "state = COMPLETED")  # a baseline stays whichever rows match the filter
    page.keyboard.press("Escape")
    address = page.url
    assert f"base={last}" in address
    assert "sort=opt%2C-layers" in address
    before = page.locator(".table tbody").inner_text()
    page.goto(address)
    expect(page.locator(".table tbody tr.baseline").first).to_contain_text(last)
    assert page.locator(".table tbody").inner_text() == before
    page.get_by_role("button", name="Unpin").click()
    expect(page.locator("tr.baseline")).to_have_count(0)


def test_columns_are_ordered_and_pinned(visitor: Visitor) -> None:
    columns = "id,state,best,latest,progress,batches,duration,created,ended,reason,owner,host"
    page = visitor.open(f"/runs?cols={columns}")
    heading = page.locator(".table thead th")
    expect(heading).to_have_count(13)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="Move Best left").click()
    expect(heading.nth(2)).to_have_text("Best")
    page.get_by_role("button", name="Move Trial right").click()
    expect(heading.nth(1)).to_have_text("Best")
    page.get_by_role("button", name="Pin up to Trial").click()
    page.keyboard.press("Escape")
    page.goto(page.url)
    expect(heading.nth(3)).to_have_text("State")
    assert [text.strip() for text in heading.all_inner_texts()][1:4] == ["Best", "Trial", "State"]
    assert "pin=2" in page.url

    def places() -> list[float]:
        boxes = [heading.nth(at).bounding_box() for at in (1, 2, 3)]
        return [box["x"] for box in boxes if box is not None]

    before = places()
    page.locator(".table-frame").evaluate("(frame) => { frame.scrollLeft = 300; }")
    best, trial, state = places()
    assert [best, trial] == before[:2]
    assert state < before[2]


@pytest.fixture
def several(tmp_path: Path) -> Search:
    """Create three experiments that have ended, with two trials each."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    search = Search(tmp_path, MODEL, CONFIG, store=str(tmp_path / "store.sqlite"), environment=environment)
    with search.opened() as store:
        for _ in range(3):
            lease, trials = with_trials(store, 2, labels=[])
            ended = tuple(TrialChange(trial, state="COMPLETED", ended=4000.0) for trial in trials)
            over = ExperimentChange(state="COMPLETED", ended=4000.0)
            store.experiments.commit(lease, Change(trials=ended, experiment=over))
            store.experiments.release(lease)
    return search


def test_actions_on_a_selection_change_what_was_selected_and_nothing_else(
    several: Search, browser: api.Browser
) -> None:
    with running_ui(several) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/runs?view=experiments")
        for experiment in (1, 3):
            page.get_by_label(f"Select {experiment}", exact=True).check()
        chosen = page.locator(".chosen-bar")
        expect(chosen).to_contain_text("2 experiments selected")
        chosen.get_by_role("button", name="Actions").click()
        page.get_by_role("button", name="Add a label (2)").click()
        page.get_by_role("dialog").get_by_label("Label").fill("<u>good</u>")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(page.locator(".toasts")).to_contain_text("done for 2 items")
        expect(page.locator(".table tbody .tag")).to_have_text(["<u>good</u>", "<u>good</u>"])
        with several.opened() as store:
            assert [store.experiments.get(number).labels for number in (1, 2, 3)] == [
                ["<u>good</u>"],
                [],
                ["<u>good</u>"],
            ]

        page = visitor.open("/runs")  # of trials: the actions are those of their experiments
        for trial in (1, 2, 4):
            page.get_by_label(f"Select {trial}", exact=True).check()
        expect(chosen).to_contain_text("of experiments 1-2:")
        chosen.get_by_role("button", name="Actions").click()
        page.get_by_role("button", name="Archive (2)", exact=True).click()
        expect(page.locator(".table-foot")).to_contain_text("2 trials")
        assert _column(page, 2) == ["6", "5"]
        page.get_by_label("Archived").check()
        expect(page.locator(".table-foot")).to_contain_text("6 trials")
        with several.opened() as store:
            assert [store.experiments.get(number).archived for number in (1, 2, 3)] == [True, True, False]
