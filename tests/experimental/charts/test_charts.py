"""Trials, experiments and comparisons in a notebook: curves, their size, and the text without a built page."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from determined import built_page
from determined.errors import NotFoundException
from determined.experimental import Determined
from determined.store.store import Store
from tests.experimental.charts.shown import Chart, Parsed
from tests.helpers.curve_stores import searched
from tests.web.site import Site

RATES: list[dict[str, Any]] = [{"lr": 0.1, "depth": 2}, {"lr": 0.01, "depth": 2}, {"lr": 0.001, "depth": 2}]


def test_a_trial_an_experiment_and_a_comparison_show_their_curves(sdk: Determined, store: Store) -> None:
    experiment, trials = searched(store, RATES, name="rates")
    of_trial = Chart(sdk.get_trial(trials[0])._repr_html_())
    assert of_trial.trials == trials[:1]
    assert {"table", "iframe"} <= set(of_trial.outside.tags())
    of_experiment = Chart(sdk.get_experiment(experiment)._repr_html_())
    assert of_experiment.trials == trials
    assert list(of_experiment.answers) == ["validation/error", "validation/accuracy"]  # the metric of the search first
    compared = sdk.compare([sdk.get_trial(trials[2]), trials[0]])
    assert [trial.id for trial in compared.trials] == [trials[2], trials[0]]
    assert compared.metric == "validation/error"
    chart = Chart(compared._repr_html_())
    assert chart.trials == [trials[2], trials[0]]
    assert chart.content["names"] == {
        str(trials[0]): f"trial {trials[0]} lr=0.1",
        str(trials[2]): f"trial {trials[2]} lr=0.001",
    }
    assert chart.content["address"] == f"/chart?trials={trials[2]}%2C{trials[0]}"


def test_the_data_are_those_of_the_page(sdk: Determined, store: Store, place: str, static: Path) -> None:
    def report(number: int, step: int) -> dict[str, Any]:
        return {"error": math.nan if step == 50 else math.inf if step == 60 else number + 1 / step}

    _, trials = searched(store, RATES, report=report)
    shown = Chart(sdk.compare(trials, axis="time")._repr_html_()).answers["validation/error"]
    with Site(place, static) as site:
        asked = site.get(f"/api/curves?trials={','.join(map(str, trials))}&key=validation/error&axis=time")
    assert {**shown, "version": ""} == {**asked, "version": ""}
    assert [mark["kind"] for mark in shown["curves"][0]["marks"]] == ["NaN", "Infinity"]
    assert [curve["failed"] for curve in shown["curves"]] == [False, False, True]


def test_the_frame_can_do_nothing_but_draw(sdk: Determined, store: Store) -> None:
    _, trials = searched(store, RATES)
    chart = Chart(sdk.get_trial(trials[0])._repr_html_())
    assert chart.frame["sandbox"] == "allow-scripts"
    assert chart.frame["title"] == "Curves of validation/error of 1 trial"
    assert "src" not in chart.frame
    policy = chart.inside.attributes("meta") if chart.inside.tags().count("meta") == 1 else chart.inside.elements[3][1]
    content = policy["content"]
    assert content is not None
    assert content.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in content
    assert not [attributes for _, attributes in chart.inside.elements if {"src", "href"} & set(attributes)]


@pytest.mark.parametrize(
    ("metric", "drawn"),
    [
        (None, "validation/error"),
        ("accuracy", "validation/accuracy"),
        ("validation/accuracy", "validation/accuracy"),
        ("training/loss", None),
        ("", None),
    ],
)
def test_a_metric_is_chosen_by_its_name(sdk: Determined, store: Store, metric: str | None, drawn: str | None) -> None:
    _, trials = searched(store, RATES)
    if drawn is None:
        with pytest.raises(ValueError, match="there are: validation/accuracy, validation/error"):
            sdk.compare(trials, metric)
        return
    compared = sdk.compare(trials, metric)
    assert compared.metric == drawn
    assert next(iter(Chart(compared._repr_html_()).answers)) == drawn


def test_the_best_trials_of_a_large_search_are_shown_and_the_rest_is_counted(sdk: Determined, store: Store) -> None:
    # The metrics become worse with the number of the trial, so the oldest are the best.
    experiment, trials = searched(store, [{"lr": number} for number in range(60)], steps=[10, 20])
    html = sdk.get_experiment(experiment)._repr_html_()
    assert Chart(html).trials == trials[:50]
    assert "50 of 60 trials are shown, the best by the metric of the search" in html
    other, best_of_other = searched(store, RATES, steps=[10], smaller_is_better=False, report=lambda n, _: {"error": n})
    compared = sdk.compare([sdk.get_experiment(experiment), sdk.get_experiment(other), trials[-1]], max_trials=5)
    assert [trial.id for trial in compared.trials] == [
        trials[-1],
        trials[0],
        best_of_other[2],
        trials[1],
        best_of_other[1],
    ]
    assert "5 of 63 trials" in repr(compared)
    assert "5 of 63 trials" in compared._repr_html_()
    assert len(sdk.compare(sdk.get_experiment(experiment), max_trials=60).trials) == 60
    named = sdk.compare(trials, max_trials=2)
    assert [trial.id for trial in named.trials] == trials[:2]


def test_long_curves_are_downsampled_and_metrics_left_out(sdk: Determined, store: Store) -> None:
    def report(number: int, step: int) -> dict[str, Any]:
        spike = 1e6 if step == 777 else 0.0
        return {"error": math.sin(step * (number + 1)) + spike, **{f"m{one}": math.cos(step) for one in range(14)}}

    experiment, _ = searched(store, [{"lr": number} for number in range(25)], steps=range(1, 1501), report=report)
    html = sdk.get_experiment(experiment)._repr_html_()
    assert len(html) < 1_500_000
    chart = Chart(html)
    assert all(
        curve["points"] == 1500 and max(filter(None, curve["high"])) > 999_000
        for curve in chart.answers["validation/error"]["curves"]
    )
    assert 1 <= len(chart.answers) < 15
    assert f"It has {len(chart.answers)} of 15 metrics; metric= chooses another." in html


def test_secrets_are_masked(sdk: Determined, store: Store) -> None:
    hparams = [
        {"lr": number, "api_token": f"sesame-{number}", "url": f"https://me:sesame-{number}@x"} for number in (1, 2)
    ]
    experiment, trials = searched(store, hparams)
    compared = sdk.compare(trials)
    shown = [sdk.get_trial(trials[0])._repr_html_(), sdk.get_experiment(experiment)._repr_html_()]
    for text in (*shown, compared._repr_html_(), repr(compared)):
        assert "sesame" not in text
    assert "********" in shown[0]


def test_a_metric_of_which_some_values_are_no_numbers_is_drawn(sdk: Determined, store: Store) -> None:
    experiment, trials = searched(
        store, RATES, steps=range(1, 4), report=lambda number, step: {"error": None if step == 2 else number + step}
    )
    compared = sdk.compare(trials)
    assert compared.metric == "validation/error"
    assert "error" in repr(compared)
    curves = Chart(sdk.get_experiment(experiment)._repr_html_()).answers["validation/error"]["curves"]
    assert [curve["points"] for curve in curves] == [2] * len(RATES)


def test_without_numbers_there_is_a_sentence(sdk: Determined, store: Store) -> None:
    experiment, trials = searched(store, RATES, report=lambda number, step: {"note": "no number"})
    for html in (sdk.get_trial(trials[0])._repr_html_(), sdk.get_experiment(experiment)._repr_html_()):
        assert "iframe" not in Parsed(html).tags()
        assert "No curves yet" in html
    compared = sdk.compare(trials)
    assert compared.metric is None
    assert "no numbers reported yet" in repr(compared)
    assert "No curves yet" in compared._repr_html_()


def test_without_the_built_page_there_is_a_sentence_that_says_how_to_build_it(
    sdk: Determined, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, trials = searched(store, RATES)
    monkeypatch.setattr(built_page, "STATIC", tmp_path / "nothing")
    html = sdk.compare(trials)._repr_html_()
    assert "iframe" not in Parsed(html).tags()
    assert "npm ci &amp;&amp; npm run build" in html
    assert "<table>" in html


def test_what_cannot_be_compared_is_named(sdk: Determined, store: Store, tmp_path: Path) -> None:
    experiment, trials = searched(store, RATES)
    with pytest.raises(ValueError, match="nothing to compare"):
        sdk.compare([])
    with pytest.raises(TypeError, match="expected a trial, an experiment or the id of a trial, got 'three'"):
        sdk.compare(["three"])  # type: ignore[list-item]
    with pytest.raises(NotFoundException):
        sdk.compare([trials[0], 999])
    with pytest.raises(ValueError, match="unknown axis 'hours'"):
        sdk.compare(trials, axis="hours")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_trials"):
        sdk.compare(trials, max_trials=0)
    with Determined(str(tmp_path / "other.sqlite")) as other, pytest.raises(ValueError, match="another store"):
        other.compare([sdk.get_experiment(experiment)])


def test_an_object_whose_rows_were_deleted_still_shows_its_table(sdk: Determined, store: Store) -> None:
    experiment, trials = searched(store, RATES)
    shown, trial = sdk.get_experiment(experiment), sdk.get_trial(trials[0])
    store._database.execute("DELETE FROM metrics")
    store._database.execute("DELETE FROM attempts")
    store._database.execute("DELETE FROM trials")
    store._database.execute("DELETE FROM leases")
    store._database.execute("DELETE FROM experiments")
    for html in (shown._repr_html_(), trial._repr_html_()):
        assert Parsed(html).tags().count("table") == 1
        assert "No chart: " in html


def test_a_trial_with_damaged_reports_is_left_out(sdk: Determined, store: Store) -> None:
    _, trials = searched(store, RATES)
    store._database.execute("UPDATE metrics SET body = 'nonsense' WHERE trial_id = ? AND step = 50", [trials[1]])
    compared = sdk.compare(trials)
    assert [trial.id for trial in compared.trials] == [trials[0], trials[2]]
    assert f"trial {trials[1]} is missing: " in repr(compared)


def test_the_text_of_a_comparison(sdk: Determined, store: Store) -> None:
    experiment, trials = searched(
        store, RATES, name="rates", steps=[10], report=lambda number, step: {"error": number + 0.5}
    )
    assert repr(sdk.compare(sdk.get_experiment(experiment))).split("\n") == [
        "3 trials: validation/error over batches",
        "trial  experiment  state      points  last  min  max  lr",
        f"{trials[0]}      {experiment} rates     COMPLETED  1       0.5   0.5  0.5  0.1",
        f"{trials[1]}      {experiment} rates     COMPLETED  1       1.5   1.5  1.5  0.01",
        f"{trials[2]}      {experiment} rates     ERROR      1       2.5   2.5  2.5  0.001",
    ]


def test_it_needs_neither_the_server_nor_its_packages(store: Store, place: str) -> None:
    _, trials = searched(store, RATES)
    program = f"""
import json, sys
for name in ("fastapi", "starlette", "uvicorn", "orjson"):
    sys.modules[name] = None
from determined.experimental import client
assert not {{"html", "determined.curves.trials", "determined.built_page"}} & set(sys.modules)
client.login({place!r})
compared = client.compare({trials})
assert not {{"html", "determined.built_page"}} & set(sys.modules)
html = compared._repr_html_() + client.get_trial({trials[0]})._repr_html_()
assert not [name for name in sys.modules if name.startswith("determined.web")]
print(json.dumps([html, repr(compared)]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    html, text = json.loads(done.stdout)
    assert ("<iframe" in html) == built_page.is_built(Path(built_page.__file__).parent / "web" / "static")
    assert "validation/error" in text
