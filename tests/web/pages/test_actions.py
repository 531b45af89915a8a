"""Every action with a dialog, by clicking, on experiments that really run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.searches import Search, end_processes
from tests.helpers.waiting import wait_until
from tests.web.pages.browser import Visitor, running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL

PATIENCE = 90_000  # milliseconds


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[Search]:
    """A random search whose two trials have completed."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    config = {
        **CONFIG,
        "name": "two trials",
        "hyperparameters": {**CONFIG["hyperparameters"], "opt": "adam"},
        "searcher": {"name": "random", "metric": "loss", "max_length": {"batches": 64}, "max_trials": 2},
    }
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "DET_SLOTS": "1"}
    search = Search(tmp_path / "home", MODEL, config, slots=1, environment=environment)
    search.activate(search.create())
    try:
        yield search
    finally:
        end_processes(search.home)


def _choose(page: api.Page, action: str) -> api.Locator:
    """Choose an action from the menu, and return its dialog."""
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name=action, exact=True).first.click()
    return page.get_by_role("dialog")


def _completed(page: api.Page) -> None:
    expect(page.locator(".title .badge").first).to_contain_text("Completed", timeout=PATIENCE)


def _fork_with_changed_hyperparameters(visitor: Visitor, search: Search) -> None:
    page = visitor.open("/experiments/1")
    dialog = _choose(page, "Fork")
    dialog.get_by_label("Other settings").fill("searcher.max_trials=many")
    dialog.get_by_role("button", name="Fork").click()
    expect(dialog.locator("[role=alert]")).to_contain_text("max_trials")  # refused: the input can be corrected
    dialog.get_by_label("Other settings").fill("searcher.max_trials=1")
    dialog.get_by_label("lr", exact=True).fill("0.05")
    dialog.get_by_role("button", name="Fork").click()
    page.wait_for_url("**/experiments/2")
    expect(page.locator("main")).to_contain_text("Forked from")
    _completed(page)
    with search.opened() as store:
        (trial,) = store.experiments.trials(2)
    assert trial.hparams["lr"] == 0.05
    assert trial.hparams["opt"] == "adam"


def _fork_a_trial(visitor: Visitor, search: Search) -> None:
    page = visitor.open("/trials/1")
    dialog = _choose(page, "Fork")
    dialog.get_by_label("opt", exact=True).fill("sgd")
    dialog.get_by_role("button", name="Fork").click()
    page.wait_for_url("**/experiments/3")
    _completed(page)
    with search.opened() as store:
        (trial,) = store.experiments.trials(3)
        assert trial.hparams == {**store.experiments.trial(1).hparams, "opt": "sgd"}


def _continue(visitor: Visitor, search: Search) -> None:
    page = visitor.open("/experiments/3")
    dialog = _choose(page, "Continue")
    dialog.get_by_label("Other settings").fill("searcher.max_length.batches=128")
    dialog.get_by_role("button", name="Continue").click()
    expect(page.locator(".toasts")).to_contain_text("Changed: searcher.max_length")
    with search.opened() as store:
        wait_until(lambda: [row.runs for row in store.experiments.trials(3)] == [2], "it was not continued")
    _completed(page)


def _extend(visitor: Visitor, search: Search) -> None:
    page = visitor.open("/experiments/1")
    dialog = _choose(page, "Extend")
    expect(dialog).to_contain_text("2 until now")
    dialog.get_by_label("Trials in all").fill("3")
    dialog.get_by_role("button", name="Extend").click()
    expect(page.locator(".table-foot")).to_contain_text("3 trials", timeout=PATIENCE)
    _completed(page)
    with search.opened() as store:
        assert [trial.state for trial in store.experiments.trials(1)] == ["COMPLETED"] * 3


def _register(visitor: Visitor, search: Search) -> None:
    page = visitor.open("/trials/1?tab=checkpoints")
    page.get_by_role("button", name="Register").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the model").fill("digits <u>model</u>")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator("tbody tr").first).to_contain_text("registered: digits <u>model</u>")
    page = visitor.open("/models")
    page.get_by_role("link", name="digits <u>model</u>").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    with search.opened() as store:
        (checkpoint, *_) = [row for row in store.checkpoints(1) if row.state == "ACTIVE"]
    expect(page.locator("tbody tr")).to_contain_text(checkpoint.checkpoint_id[:8])


def _label_rename_and_archive(visitor: Visitor) -> None:
    page = visitor.open("/experiments/1")
    dialog = _choose(page, "Remove a label")
    dialog.get_by_label("Label").select_option("demo")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator(".title .tag")).to_have_count(1)
    dialog = _choose(page, "Rename")
    dialog.get_by_label("New name").fill("another name")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("another name")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.locator(".toasts")).to_contain_text("archived")


def _delete(visitor: Visitor, search: Search, experiment: int) -> None:
    page = visitor.open(f"/experiments/{experiment}")
    dialog = _choose(page, "Delete")
    expect(dialog).to_contain_text("What goes")
    dialog.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/runs?view=experiments")
    with search.opened() as store:
        assert experiment not in [row.id for row in store.experiments.list(limit=None, archived=True)]


def _deletion_of_a_registered_checkpoint_is_refused(visitor: Visitor, search: Search) -> None:
    page = visitor.open("/experiments/1")
    dialog = _choose(page, "Delete")
    expect(dialog.locator(".notice.warn")).to_contain_text("digits <u>model</u>")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.locator("[role=alert]")).to_contain_text("digits <u>model</u>")
    with search.opened() as store:
        assert store.experiments.get(1).archived


def test_new_runs_by_clicking(finished: Search, browser: api.Browser) -> None:
    with running_ui(finished) as ui, visiting(browser, ui) as visitor:
        _fork_with_changed_hyperparameters(visitor, finished)
        _fork_a_trial(visitor, finished)
        _continue(visitor, finished)
        _delete(visitor, finished, 2)


def test_changes_by_clicking(finished: Search, browser: api.Browser) -> None:
    with running_ui(finished) as ui, visiting(browser, ui) as visitor:
        _extend(visitor, finished)
        _register(visitor, finished)
        _label_rename_and_archive(visitor)
        _deletion_of_a_registered_checkpoint_is_refused(visitor, finished)
