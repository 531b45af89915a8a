"""The values of charts as the page gets them, and ranges that no chart has."""

from __future__ import annotations

from collections.abc import Callable

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
