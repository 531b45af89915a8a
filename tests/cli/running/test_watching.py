"""How a running search is shown: lines in a file, a live view on a terminal."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from determined.cli.running.live_view import LiveView, render
from determined.cli.running.text_view import LineView, hparams_text
from determined.experiment.runner.view import RungView, TrialView, View
from tests.cli.conftest import WEIRD
from tests.helpers.terminal import screen, screen_cells


def trial(number: int, state: str = "RUNNING", **changed: Any) -> TrialView:
    view = TrialView(
        id=number + 10,
        number=number,
        state=state,
        hparams={"lr": 0.1 * number, "net": {"layers": [8, 8]}},
        bracket=0,
        rung=0,
        goal=4,
        progress=None,
        has_started=state != "QUEUED",
        steps=0,
        metric=None,
        best=None,
        restarts=0,
    )
    return replace(view, **changed)


def view(*trials: TrialView, **changed: Any) -> View:
    ranked = sorted((one.best, one.number) for one in trials if one.best is not None)
    best = next((one for one in trials if ranked and one.number == ranked[0][1]), None)
    made = View(
        experiment_id=3,
        name="search",
        state="ACTIVE",
        progress=0.25,
        slots=2,
        used=2,
        trials=trials,
        planned=16,
        rungs=(RungView(0, 4.0, 5, 2), RungView(1, 16.0, 1, 0)),
        best=best,
        metric_name="loss",
        smaller_is_better=True,
        time_metric="batches",
        searched=("lr",),
        seconds=80.0,
        trials_per_hour=120.0,
        seconds_left=200.0,
    )
    return replace(made, **changed)


def test_a_line_for_each_thing_that_happened_and_none_when_nothing_did() -> None:
    written: list[str] = []
    lines = LineView(written.append, new=True)

    def said(now: View) -> list[str]:
        written.clear()
        lines(now)
        return [line.partition("] ")[2] for line in written]

    assert said(view(trial(0), trial(1, "QUEUED"))) == ["trial 10 started: lr=0"]
    assert written[0].startswith("[1m 20s, 25%] ")
    assert said(view(trial(0, steps=3), trial(1, "QUEUED"))) == []
    assert said(view(trial(0, rung=1, steps=4, metric=0.5, best=0.5), trial(1))) == [
        "trial 10 passed rung 1: loss 0.5",
        "trial 11 started: lr=0.1",
        "best so far: trial 10, loss 0.5",
    ]
    going = trial(0, rung=1, steps=4, metric=0.5, best=0.5)
    assert said(view(going, trial(1, restarts=1))) == []  # the runner warns of it, with the reason
    assert said(view(going, trial(1, "STOPPING", restarts=1))) == []
    ended = trial(1, "STOPPED_EARLY", restarts=1, steps=4, metric=float("nan"))
    assert said(view(going, ended)) == ["trial 11 STOPPED_EARLY after 4 batches: loss NaN"]
    assert said(view(replace(going, state="PAUSED"), ended, state="PAUSED")) == [
        "trial 10 PAUSED after 4 batches: loss 0.5",
        "experiment 3: PAUSED",
    ]
    assert said(view(going, ended, trial(2, "COMPLETED", steps=9, rung=2), state="PAUSED")) == [
        "trial 10 resumed: lr=0",
        "trial 12 started: lr=0.2",
        "trial 12 COMPLETED after 9 batches",
    ]


def test_lines_say_on_which_nodes_of_a_cluster_trials_start() -> None:
    written: list[str] = []
    LineView(written.append, new=True)(view(trial(0, nodes=("a", "a", "b")), trial(1, nodes=("b",)), trial(2)))
    assert [line.partition("] ")[2] for line in written] == [
        "trial 10 started on a (ranks 0 to 1), b (rank 2): lr=0",
        "trial 11 started on b: lr=0.1",
        "trial 12 started: lr=0.2",
    ]


def test_short_trials_start_and_end_in_the_order_in_which_they_did() -> None:
    """Several trials can start and end between two views: each line has the time of its event."""
    written: list[str] = []
    lines = LineView(written.append, new=True)
    first = trial(0, "COMPLETED", steps=1, started_at=3.0, state_since=70.0)
    second = trial(1, "COMPLETED", steps=1, started_at=4.0, state_since=61.0)
    lines(view(first, second, trial(2, started_at=62.0, state_since=62.0), best=None))
    assert written == [
        "[3s, 25%] trial 10 started: lr=0",
        "[4s, 25%] trial 11 started: lr=0.1",
        "[1m 01s, 25%] trial 11 COMPLETED after 1 batch",
        "[1m 02s, 25%] trial 12 started: lr=0.2",
        "[1m 10s, 25%] trial 10 COMPLETED after 1 batch",
    ]


def test_trials_that_ended_before_are_not_announced() -> None:
    written: list[str] = []
    over, half = trial(0, "COMPLETED", steps=9), trial(1, "RUNNING", steps=4, rung=1, restarts=1)
    LineView(written.append, new=False)(view(over, half, trial(2, "QUEUED")))
    assert [line.partition("] ")[2] for line in written] == [
        "1 of 3 trials ended before",
        "trial 11 resumed: lr=0.1",
    ]


def test_lines_are_harmless() -> None:
    written: list[str] = []
    LineView(written.append, new=True)(view(trial(0, hparams={WEIRD: WEIRD}, metric=1.0, best=1.0), metric_name=WEIRD))
    assert len(written) == 2
    assert not set("".join(written)) & {"\n", "\x1b", "\x07", "\u202e"}


def test_hyperparameters_in_a_line() -> None:
    assert hparams_text({"a": {"b": {"c": 1}, "d": None}, "e": {}, "f": True}) == "a.b.c=1 a.d= e={} f=True"


def drawn(now: View, height: int = 20, width: int = 120) -> list[str]:
    screen = io.StringIO()
    Console(file=screen, width=width, force_terminal=False, highlight=False).print(render(now, height))
    return screen.getvalue().splitlines()


def test_the_picture_has_rungs_best_slots_rate_and_time_left() -> None:
    trials = [trial(n, "STOPPED_EARLY", best=1.0 + n, metric=1.0 + n) for n in range(12)]
    lines = drawn(view(trial(20, rung=1, steps=7, metric=0.125, best=0.125), *trials), height=14)
    text = "\n".join(lines)
    assert (
        "Experiment 3 search  ACTIVE  12 of 16 trials done, 120 an hour  slots 2/2  1m 20s, about 3m 20s left" in text
    )
    assert "best so far: trial 30, loss 0.125" in text
    assert "Bracket 0, reached 4 batches: 5 trials (2 on the way)" in text
    assert "Bracket 1, reached 16 batches: 1 trial" in text
    assert " 25%" in lines[1]
    assert len(lines) <= 14
    shown = [line.split()[0] for line in lines if "STOPPED_EARLY" in line or "RUNNING" in line]
    assert shown == ["30", "10", "11", "12"]  # running ones, then the best, and no more than fit


@pytest.mark.parametrize("columns", [80, 140])
def test_the_live_view_as_text(columns: int) -> None:
    """Only searched hyperparameters, no rate of 0, a curve for each trial, and one line for each row."""
    running = trial(3, steps=32, metric=0.25, best=0.25, values=(1.0, 0.5, 0.25), hparams={"batch": 64, "lr": 0.3})
    rungs = (RungView(0, 16.0, 1, 0), RungView(0, 32.0, 1, 0), RungView(0, 64.0, 0, 1))
    lines = drawn(view(running, rungs=rungs, trials_per_hour=0.0, name="n" * 20), width=columns)
    text = "\n".join(lines)
    assert "an hour" not in text
    assert "Reached 16 batches: 1 trial, 32: 1, 64: 0 (1 on the way)" in lines
    (row,) = [line for line in lines if "RUNNING" in line]
    assert row.split() == ["13", "RUNNING", "0", "32", "0.25", "0.25", "█▃▁", "lr=0.3"]
    assert "batch=64" not in text
    assert all(len(line) <= columns for line in lines)
    assert lines[-1] == ""  # the cursor waits here


@pytest.mark.parametrize("columns", [80, 140])
def test_the_picture_shows_the_nodes_of_a_cluster(columns: int) -> None:
    trials = (trial(0, nodes=("a", "b")), trial(1, nodes=("b" + WEIRD,)), trial(2, "QUEUED"))
    lines = drawn(view(*trials), width=columns)
    (both,) = [line for line in lines if "a (rank 0), b (rank 1)"[: columns // 8] in line]
    assert both.split()[:2] == ["10", "RUNNING"]
    assert not set("".join(lines)) & {"\x1b", "\x07", "\u202e"}
    assert all(len(line) <= columns for line in lines)
    assert sum("Nodes" in line for line in lines) == 1
    many = trial(0, nodes=tuple(f"node-{number}" for number in range(30)))
    lines = drawn(view(many), width=columns)
    (row,) = [line for line in lines if "RUNNING" in line]
    assert "node-0 (ra" in row
    assert all(len(line) <= columns for line in lines)
    assert "lr=0" in row
    assert "Nodes" not in "".join(drawn(view(trial(0)), width=columns))


def test_the_picture_counts_what_is_being_saved() -> None:
    trials = (trial(0, "STOPPING"), trial(1, "RUNNING"), trial(2, "PAUSED"))
    assert "Pausing: saving 2 trials … (Ctrl-C again: stop without saving)" in drawn(view(*trials, state="PAUSING"))
    assert "Pausing: saving 1 trial … (Ctrl-C again: stop without saving)" in drawn(view(trials[0], state="PAUSING"))


@pytest.mark.parametrize("columns", [80, 140])
def test_the_picture_says_what_ctrl_c_does_now(columns: int) -> None:
    running, waiting = trial(0), trial(1, "QUEUED")

    def said(state: str, *trials: TrialView) -> str:
        return drawn(view(*trials, state=state), width=columns)[-2]

    assert said("ACTIVE", running, waiting) == "Ctrl-C pauses: everything is saved first"
    assert said("ACTIVE", waiting) == "Ctrl-C pauses the experiment"
    assert said("PAUSING", waiting) == "Pausing …"
    for state in ("PAUSED", "COMPLETED", "CANCELED", "ERROR", "STOPPING", "STOPPING_CANCELED", "STOPPING_KILLED"):
        assert said(state, running, waiting) == "", state


def test_the_picture_counts_one_and_shows_rungs_of_searches_that_have_them() -> None:
    text = "\n".join(drawn(view(trial(0), planned=1, rungs=(RungView(0, 1.0, 1, 0), RungView(0, 4.0, 0, 1)))))
    assert "0 of 1 trial done" in text
    assert "Reached 1 batch: 1 trial, 4: 0 (1 on the way)" in text
    assert "Rung" in text
    flat = "\n".join(drawn(view(trial(0, steps=3), planned=None, rungs=())))
    assert "0 trials done" in flat
    assert "Rung" not in flat
    assert [line.split()[:3] for line in flat.splitlines() if "RUNNING" in line] == [["10", "RUNNING", "3"]]


def test_the_picture_is_harmless_and_fits() -> None:
    strange = trial(0, hparams={WEIRD: WEIRD * 20}, best=1.0, metric=1.0)
    lines = drawn(view(strange, name=WEIRD, metric_name="[red]loss[/red]"), width=80)
    assert not set("".join(lines)) & {"\x1b", "\x07", "\u202e"}
    assert "[red]loss[/red]" in "".join(lines)
    assert len(lines) < 12


def test_lines_scroll_by_above_the_live_picture() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=100, height=30, force_terminal=True, highlight=False)
    with LiveView(console) as live:
        live(view(trial(0)))
        live.line("a line of [bold]a log[/bold]")
        live(view(trial(0, steps=5)))
    assert "a line of [bold]a log[/bold]" in screen.getvalue()
    assert "Ctrl-C pauses" in screen.getvalue()


def test_a_trial_that_is_canceled_before_it_starts_is_not_said_to_have_started() -> None:
    written: list[str] = []
    lines = LineView(written.append, new=True)
    lines(view(trial(0, "QUEUED")))
    lines(view(trial(0, "CANCELED", has_started=False)))
    assert [line.partition("] ")[2] for line in written] == ["trial 10 CANCELED before it started"]


def test_a_trial_that_was_not_running_is_not_said_to_be_paused() -> None:
    """When the experiment is paused, queued trials are recorded as PAUSED; a short run in between is reported."""
    written: list[str] = []
    lines = LineView(written.append, new=True)
    again = trial(1, "QUEUED", has_started=True, steps=4)
    lines(view(trial(0, "QUEUED"), again))
    lines(view(trial(0, "PAUSED", has_started=False), replace(again, state="PAUSED")))
    assert written == []
    lines(view(trial(0, "QUEUED"), again))
    lines(view(trial(0, "PAUSED", steps=2), again))
    assert [line.partition("] ")[2] for line in written] == [
        "trial 10 started: lr=0",
        "trial 10 PAUSED after 2 batches",
    ]


def test_trials_that_the_searcher_has_paused_before_are_no_news() -> None:
    written: list[str] = []
    lines = LineView(written.append, new=False)
    lines(view(trial(0, "PAUSED", steps=4), trial(1, "RUNNING", steps=2)))
    assert [line.partition("] ")[2] for line in written] == ["trial 11 resumed: lr=0.1"]


def test_a_narrower_terminal_keeps_no_piece_of_a_frame() -> None:
    """A terminal wraps the lines that it shows again when its window becomes narrower."""
    written = io.StringIO()
    console = Console(file=written, width=140, height=30, force_terminal=True, highlight=False)
    with LiveView(console) as live:
        live.line("a line before")
        live(view(trial(0, hparams={"lr": 0.1, "note": "x" * 60}), searched=()))
        wide = screen_cells(written.getvalue().replace("\n", "\r\n").encode(), 140)
        drawn_so_far = len(written.getvalue())
        wrapped = [line[start : start + 80] for line in wide for start in range(0, max(1, len(line)), 80)]
        assert len(wrapped) > len(wide)
        console.width = 80
        live(view(trial(0, steps=5)))
        live.line("a line after")
    later = written.getvalue()[drawn_so_far:].replace("\n", "\r\n")
    shown = screen(("\r\n".join(wrapped) + later).encode(), 80)
    assert [line for line in shown if line] == ["a line before", "a line after"]


def test_lines_of_other_threads_break_no_frame() -> None:
    written = io.StringIO()
    console = Console(file=written, width=80, height=30, force_terminal=True, highlight=False)
    with LiveView(console) as live:

        def talk() -> None:
            for number in range(50):
                live.line(f"line {number}")

        talking = threading.Thread(target=talk)
        talking.start()
        for number in range(50):
            live(view(*[trial(n) for n in range(number % 7)]))
        talking.join()
    shown = screen(written.getvalue().replace("\n", "\r\n").encode(), 80)
    assert [line for line in shown if line] == [f"line {number}" for number in range(50)]
