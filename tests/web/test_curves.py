"""The values of charts as the page gets them, and ranges that no chart has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from determined.store.store import Store
from tests.store.rows import begin, metric
from tests.web.site import Site


@pytest.mark.parametrize(
    "value",
    [
        lambda step: 1e-50 * step,
        lambda step: 1e12 + step,
        lambda step: 1e300 * step,
        lambda step: 16_777_217.0 if step == 5 else 16_777_216.0,
        lambda step: 0.1,
    ],
    ids=["tiny", "far from zero", "huge", "one", "constant"],
)
def test_values_are_sent_as_precisely_as_a_chart_shows_them(
    site: Site, store: Store, value: Callable[[int], float]
) -> None:
    attempt = begin(store)
    values = [value(step) for step in range(1, 50)]
    store.write([metric(attempt, "training", step, {"loss": each}) for step, each in enumerate(values, start=1)])
    (curve,) = site.get(f"/api/curves?trials={attempt.trial_id}&key=training/loss")["curves"]
    assert curve["low"] == curve["high"] == values


def test_values_are_sent_in_single_precision_where_a_chart_cannot_show_more(site: Site, store: Store) -> None:
    attempt = begin(store)
    store.write([metric(attempt, "training", step, {"loss": 1 / step}) for step in range(1, 50)])
    (curve,) = site.get(f"/api/curves?trials={attempt.trial_id}&key=training/loss")["curves"]
    assert curve["low"][2] == pytest.approx(1 / 3)
    assert len(str(curve["low"][2])) < len(str(1 / 3))


@pytest.mark.parametrize("steps", [10, 3000], ids=["all points", "a level"])
def test_ranges_far_from_the_curve_are_empty_or_refused(site: Site, store: Store, steps: int) -> None:
    attempt = begin(store)
    store.write([metric(attempt, "training", step, {"loss": 1.0, "epochs": step / 1e6}) for step in range(steps)])
    base = f"/api/curves?trials={attempt.trial_id}&key=training/loss"
    for axis in ("batches", "epochs", "time"):
        for low, high in (("9e18", "9.1e18"), ("-9e18", "-8e18"), ("1e15", "1e16"), ("20", "-20")):
            for archived in (0, 1):
                (curve,) = site.get(f"{base}&axis={axis}&from={low}&to={high}&archived={archived}")["curves"]
                assert (curve["points"], curve["low"]) == (0, []), (axis, low, high)
        for place in ("nan", "inf", "-inf", "1e19", "1e308", "1e400", "x"):
            assert site.get(f"{base}&axis={axis}&from={place}&to=5", 422)["error"].startswith("from: ")
            assert site.get(f"{base}&axis={axis}&to={place}", 422)["error"].startswith("to: ")


def test_an_unknown_trial_has_an_empty_curve_with_its_id_as_a_number(site: Site, store: Store) -> None:
    known = begin(store).trial_id
    largest = 2**53 - 1
    curves = site.get(f"/api/curves?trials={known},{largest}&key=training/loss")["curves"]
    assert [(one["trial"], one["points"]) for one in curves] == [(known, 0), (largest, 0)]
    refused = site.get(f"/api/curves?trials={largest + 1}&key=training/loss", 422)["error"]
    assert str(largest + 1) in refused
    assert str(largest) in site.get(f"/api/trials/{largest + 1}", 422)["error"]


def test_metrics_with_a_few_values_that_are_no_numbers_are_drawn(site: Site, store: Store) -> None:
    attempt, other = begin(store), begin(store)
    values: list[Any] = [*range(97), None, "diverged"]
    store.write([metric(attempt, "training", step, {"loss": value}) for step, value in enumerate(values, 1)])
    store.write([metric(other, "training", 1, {"loss": 1.0, "note": "text"})])
    path = f"/api/curves?trials={attempt.trial_id},{other.trial_id}&key=training/loss"
    for question in ("", f"?trial={attempt.trial_id}", ""):  # the last one after their statistics are known
        numeric = {one["key"]: one["numeric"] for one in site.get(f"/api/metrics{question}")["keys"]}
        assert numeric["training/loss"]
        assert numeric.get("training/note") in (None, False)
        drawn = site.get(path)
    assert drawn["note"] == "2 values of this metric are no numbers"
    assert [curve["points"] for curve in drawn["curves"]] == [97, 1]
    assert site.get(path.replace(f"{attempt.trial_id},", ""))["note"] is None
    (shown,) = site.get(f"/api/trials/{attempt.trial_id}")["metrics"]
    summary = {"count": 99, "last": 96, "min": 0, "max": 96, "mean": 48, "nonfinite": 0, "no_numbers": 2}
    assert (shown["numeric"], shown["summary"]) == (True, summary)


def test_overwritten_points_and_beginnings_of_attempts(site: Site, store: Store) -> None:
    first = begin(store)
    store.write([metric(first, "training", step, {"loss": 1.0}) for step in range(1, 9)])
    second = begin(store, previous=first, steps=4)
    store.write([metric(second, "training", step, {"loss": 2.0}) for step in range(5, 11)])
    path = f"/api/curves?trials={first.trial_id}&key=training/loss"
    valid = site.get(path)
    assert valid["attempts"] == [{"number": 2, "x": 4.0}]
    assert [(one["attempt"], one["points"]) for one in valid["curves"]] == [(None, 10)]
    both = site.get(f"{path}&archived=1")
    assert [(one["attempt"], one["points"]) for one in both["curves"]] == [(None, 10), (1, 4)]
    assert both["curves"][1]["high"] == [None] * 4 + [1.0] * 4 + [None] * 2
    attempts = site.get(f"/api/trials/{first.trial_id}")["attempts"]
    assert [(one["first_batch"], one["last_batch"]) for one in attempts] == [(0, 8), (4, 10)]


def test_a_point_of_a_curve_and_its_time(site: Site, store: Store) -> None:
    attempt = begin(store)
    reports = [metric(attempt, "training", step, {"loss": 1.0, "epochs": step / 4}) for step in range(1, 9)]
    store.write([row._replace(reported=3000.0 + at**2) for at, row in enumerate(reports)])
    path = f"/api/trials/{attempt.trial_id}/moment?key=training/loss"
    assert site.get(f"{path}&x=3.4") == {"x": 3.0, "time": 3004.0}
    assert site.get(f"{path}&x=0.8&axis=epochs") == {"x": 0.75, "time": 3004.0}
    assert site.get(f"{path}&time=3010") == {"x": 4.0, "time": 3009.0}
    assert site.get(f"{path}&time=1&axis=time") == {"x": 1000.0, "time": 3000.0}
    assert "no points" in site.get(f"/api/trials/{attempt.trial_id}/moment?key=training/none&x=1", status=404)["error"]
    assert "either" in site.get(path, status=422)["error"]


def test_the_nested_samples_of_the_profiler_have_curves(site: Site, store: Store) -> None:
    attempt = begin(store)
    bodies = [{"host": {"load": load, "gpus": {"0": {"util": 2 * load}}}} for load in (10, 35, 20)]
    rows = [metric(attempt, "cpu", None, body) for body in bodies]
    store.write([row._replace(reported=3000.0 + second) for second, row in enumerate(rows)])
    base = f"/api/trials/{attempt.trial_id}"
    assert site.get(base)["samples"] == ["cpu/host.gpus.0.util", "cpu/host.load"]
    for key, values in (("cpu/host.load", [10, 35, 20]), ("cpu/host.gpus.0.util", [20, 70, 40])):
        (curve,) = site.get(f"{base}/profile?key={key}")["curves"]
        assert curve["high"] == values
