"""What happens while somebody looks: a search that runs, is paused and activated by clicking, a killed trial."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from tests.helpers.searches import Search, end_processes
from tests.helpers.waiting import wait_until
from tests.web.pages.browser import running_ui, visiting, why_not
from tests.web.pages.conftest import CONFIG, MODEL

PATIENCE = 90_000  # milliseconds


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Search]:
    """One trial that takes its time until the file `slowly` is deleted."""
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
        expect(page.locator(".chart-foot").first).not_to_have_text(first, timeout=PATIENCE)  # it grows by itself
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.locator(".toasts")).to_contain_text("Pausing")
        expect(page.locator(".title .badge").first).to_contain_text("Paused", timeout=PATIENCE)
        assert runner.wait(60) is not None
        page.get_by_role("button", name="Activate", exact=True).click()
        expect(page.locator(".title .badge").first).to_contain_text("Active", timeout=PATIENCE)
        Path(slow.environment["SLOWLY"]).unlink()
        expect(page.locator(".title .badge").first).to_contain_text("Completed", timeout=PATIENCE)
        assert _batches(slow) == 64


def test_the_attempts_of_a_killed_trial_are_marked(slow: Search, browser: api.Browser) -> None:
    with started(slow, slow.create()) as runner:
        wait_until(lambda: _batches(slow) >= 18, "the trial did not reach its first checkpoint")
        os.kill(_training_process(slow), signal.SIGKILL)
        Path(slow.environment["SLOWLY"]).unlink()
        assert runner.wait(120) == 0
    with running_ui(slow) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/trials/1?tab=attempts")
        expect(page.locator("tbody tr")).to_have_count(2)
        expect(page.locator("tbody tr").first).to_contain_text("ended without reporting its end")
        expect(page.locator("tbody tr").first).to_contain_text("Lost")
        page = visitor.open("/trials/1")
        expect(page.locator(".u-over").first).to_be_visible()
        page.get_by_label("overwritten points").check()
        expect(page.locator(".chart-foot").first).to_contain_text("points")
