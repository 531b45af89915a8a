"""Changes while the page is open: a search that runs, is paused and activated by clicking, a killed trial."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.postgres import running_server
from tests.helpers.searches import Search, end_processes
from tests.helpers.waiting import wait_until
from tests.web.pages.browser import running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL

PATIENCE = 90_000  # milliseconds


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Search]:
    """Create a trial that is slow until the file `slowly` is deleted."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    slowly = tmp_path / "slowly"
    slowly.touch()
    config = {
        **CONFIG,
        "hyperparameters": {"lr": 0.01, "opt": "adam", "layers": 1},
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 64}},
    }
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "SLOWLY": str(slowly), "DET_SLOTS": "1"}
    search = Search(tmp_path / "home", MODEL, config, slots=1, environment=environment)
    try:
        yield search
    finally:
        slowly.unlink(missing_ok=True)
        end_processes(search.home)


@contextlib.contextmanager
def started(search: Search, experiment: int) -> Iterator[subprocess.Popen[str]]:
    """Run an experiment in the background; the runner ends with the block."""
    runner = search.start(experiment)
    try:
        yield runner
    finally:
        if runner.poll() is None:
            runner.kill()
        runner.wait()


def _batches(search: Search, trial: int = 1) -> int:
    with search.opened() as store:
        return max((metric.steps_completed or 0 for metric in store.metrics(trial)), default=0)


def _training_process(search: Search) -> int:
    """Return the process that trains."""
    with search.opened() as store:
        return store.attempts(1)[-1].process.pid


def test_a_running_search_is_followed_paused_and_activated_by_clicking(slow: Search, browser: api.Browser) -> None:
    experiment = slow.create()
    with started(slow, experiment) as runner, running_ui(slow) as ui, visiting(browser, ui) as visitor:
        page = visitor.open(f"/experiments/{experiment}")
        expect(page.locator(".live")).to_contain_text("1 running", timeout=PATIENCE)
        expect(page.locator(".chart-foot").first).to_contain_text("points", timeout=PATIENCE)
        first = page.locator(".chart-foot").first.inner_text()
        expect(page.locator(".chart-foot").first).not_to_have_text(first, timeout=PATIENCE)  # it grows without a reload
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.locator(".toasts")).to_contain_text("Pausing")
        expect(page.locator(".title .badge").first).to_contain_text("Paused", timeout=PATIENCE)
        assert runner.wait(60) is not None
        page.get_by_role("button", name="Activate", exact=True).click()
        expect(page.locator(".title .badge").first).to_contain_text("Active", timeout=PATIENCE)
        Path(slow.environment["SLOWLY"]).unlink()
        expect(page.locator(".title .badge").first).to_contain_text("Completed", timeout=PATIENCE)
        assert _batches(slow) == 64


def test_a_search_in_postgresql_is_followed(slow: Search, browser: api.Browser) -> None:
    with running_server() as server:
        search = replace(slow, store=server.new_database())
        experiment = search.create()
        with started(search, experiment) as runner, running_ui(search) as ui, visiting(browser, ui) as visitor:
            page = visitor.open("/runs")
            expect(page.locator(".live")).to_contain_text("1 running", timeout=PATIENCE)
            page = visitor.open(f"/experiments/{experiment}")
            foot = page.locator(".chart-foot").first
            expect(foot).to_contain_text("points", timeout=PATIENCE)
            expect(foot).not_to_have_text(foot.inner_text(), timeout=PATIENCE)
            Path(search.environment["SLOWLY"]).unlink()
            expect(page.locator(".title .badge").first).to_contain_text("Completed", timeout=PATIENCE)
            expect(foot).to_contain_text("16 points")  # the validations
            page = visitor.open("/runs")
            expect(page.get_by_text("Completed").first).to_be_visible()
            assert runner.wait(60) == 0


def test_attempts_moments_and_overwritten_points_of_a_killed_trial(slow: Search, browser: api.Browser) -> None:
    with started(slow, slow.create()) as runner:
        wait_until(lambda: _batches(slow) >= 18, "the trial did not reach its first checkpoint")
        os.kill(_training_process(slow), signal.SIGKILL)
        Path(slow.environment["SLOWLY"]).unlink()
        assert runner.wait(120) == 0
    with running_ui(slow) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/trials/1?tab=attempts")
        expect(page.locator("tbody tr")).to_have_count(2)
        lost = page.locator("tbody tr").first
        expect(lost).to_contain_text("Lost")
        expect(lost).to_contain_text("SIGKILL")  # as the runner recorded it: the process could not
        reached = int(lost.locator("td").nth(5).inner_text())
        assert reached >= 18  # all its steps after 16 were trained again

        page = visitor.open("/trials/1?find=loss")
        expect(page.locator(".attempts li")).to_have_count(1)
        expect(page.locator(".attempts li")).to_contain_text("Attempt 2 began at batch 16 from checkpoint")
        expect(page.locator(".attempts li")).to_contain_text("SIGKILL")
        loss = page.get_by_role("application", name="Curves of training/loss")
        expect(loss.locator(".u-over")).to_be_visible()
        loss.focus()
        for _ in range(16):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".tip")).to_contain_text("batch 16")
        expect(page.locator(".tip")).to_contain_text("Attempt 2 began at batch 16")
        loss.locator(".u-over").evaluate("(over) => over.setAttribute('data-before', '')")
        page.keyboard.press("+")
        expect(loss.locator(".u-over[data-before]")).to_have_count(0)
        expect(page.locator(".tip")).to_contain_text("batch 16")
        page.keyboard.press("0")
        expect(page).not_to_have_url(re.compile("x="))
        foot = page.locator(".chart-foot").first
        expect(foot).to_contain_text("64 points")
        page.get_by_label("overwritten points").check()
        expect(foot).to_contain_text(f"{reached - 16} overwritten points, dashed")
        assert "archived=1" in page.url
        page.get_by_role("button", name="Epochs", exact=True).click()
        expect(page.locator(".empty").first).to_be_visible()
        page.get_by_role("button", name="Time", exact=True).click()
        expect(loss.locator(".u-over")).to_be_visible()
        loss.locator(".u-over").evaluate("(over) => over.setAttribute('data-before', '')")
        page.get_by_role("button", name="Batches", exact=True).click()
        expect(loss.locator(".u-over[data-before]")).to_have_count(0)

        # From a point of a curve to the log of that moment, and back.
        expect(loss.locator(".u-over")).to_be_visible()
        loss.focus()
        for _ in range(8):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".tip")).to_contain_text("batch 8")
        page.keyboard.press("Enter")
        expect(page.locator(".log .here")).to_contain_text("batch 8:")
        page.locator(".log li", has_text="batch 12:").click()
        page.locator(".log .here").get_by_text("on the curves").click()
        expect(page.locator(".notice")).to_contain_text("is marked in the charts")
        loss = page.get_by_role("application", name="Curves of training/loss")
        expect(loss.locator(".u-over")).to_be_visible()
        loss.focus()
        for _ in range(12):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".tip")).to_contain_text("batch 12")
        expect(page.locator(".tip")).to_contain_text("A log line of")


def test_a_progress_bar_is_one_line_that_moves(slow: Search, browser: api.Browser) -> None:
    with started(slow, slow.create()) as runner, running_ui(slow) as ui, visiting(browser, ui) as visitor:
        wait_until(lambda: _batches(slow) >= 1, "the trial did not begin")
        page = visitor.open("/trials/1?tab=log&stream=stderr")
        bar = page.locator(".log li", has_text=re.compile(r"\d+ of 64"))
        expect(bar).to_have_count(1, timeout=PATIENCE)
        first = bar.inner_text()
        expect(bar).not_to_have_text(first, timeout=PATIENCE)
        expect(bar).to_have_count(1)
        Path(slow.environment["SLOWLY"]).unlink()
        assert runner.wait(120) == 0
        expect(bar).to_contain_text("64 of 64", timeout=PATIENCE)
        expect(bar).to_have_count(1)
    said = slow.det("trial", "logs", "1").stdout
    assert said.count(" of 64") == 1
    assert "64 of 64" in said
    assert said.count("%|") == 1  # the bar that ended at once
