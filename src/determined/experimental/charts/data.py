"""Read the curves of trials for a chart, downsampled so that a notebook stays small."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from determined.config.flattening import flat
from determined.config.secrets.masking import mask_secrets
from determined.curves import metric_keys
from determined.curves.chart_data import AXES, Axis, Curves, DrawnTrial, curves_data
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.curves.read import Key
    from determined.curves.summary import Statistics
    from determined.curves.trials import CurveReader
    from determined.experimental.charts.selection import ChosenTrials
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store

_MOST_POINTS = 1000  # of a curve, as the page draws it
_FEWEST_POINTS = 100
# Numbers take about ten bytes each: an output has a megabyte at most, most have far less.
_MOST_NUMBERS = 80_000
_MOST_METRICS = 12
_LONGEST_NAME = 120
_MOST_SETTINGS = 3  # hyperparameters in the name of a curve


@dataclass(frozen=True)
class ChartData:
    """The curves of trials. `metric` is drawn first; None if no trial has reported a number.

    `curves` has the data of some metrics by key, `statistics` those of all values of `metric` by trial id.
    """

    trials: list[Trial]
    experiments: dict[int, Experiment]
    settings: dict[int, dict[str, Any]]  # the hyperparameters by trial id that are not the same for all
    axis: Axis
    metric: str | None
    curves: dict[str, Curves]
    statistics: dict[int, Statistics]
    notes: list[str]

    def content(self) -> str:
        """Return the content of the chart's document as JSON in ASCII; see `exported` in `page/src/api.ts`."""
        ids = ",".join(str(row.id) for row in self.trials)
        address = {"trials": ids, **({} if self.axis == "batches" else {"axis": self.axis})}
        answers = {
            f"/api/curves?{urlencode({'axis': self.axis, 'key': key, 'trials': ids})}": curves
            for key, curves in self.curves.items()
        }
        document = {
            "address": f"/chart?{urlencode(address)}",
            "created": time.time(),
            "answers": answers,
            "names": {str(row.id): self.name(row) for row in self.trials},
        }
        return json.dumps(document, default=_numbers, allow_nan=False, separators=(",", ":"))

    def name(self, trial: Trial) -> str:
        """Return the name of a curve: the trial, and how it differs from the others."""
        words = [f"trial {trial.id}"]
        if len(self.experiments) > 1:
            words.append(self.experiments[trial.experiment_id].name)
        settings = list(self.settings[trial.id].items())[:_MOST_SETTINGS]
        words.append(", ".join(f"{name}={short_value(value)}" for name, value in settings))
        name = " ".join(filter(None, words))
        return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def read_chart(store: Store, chosen: ChosenTrials, metric: str | None = None, axis: Axis = "batches") -> ChartData:
    """Return the curves of trials; raise ValueError if none of them has reported the metric.

    `metric` is `group/name`, or a name alone; by default it is that of the search. Other metrics follow as far as the
    size allows, so that the chart can show them.
    """
    # Both import numpy, which only a chart needs.
    from determined.curves.cache import CurveCache, default_path
    from determined.curves.trials import CurveReader

    if axis not in AXES:
        raise ValueError(f"unknown axis {axis!r}: expected one of {', '.join(AXES)}")
    notes = [] if chosen.note is None else [chosen.note]
    with closing(CurveCache(default_path())) as cache:
        reader = CurveReader(store, cache)
        statistics, damaged = _statistics(reader, [row.id for row in chosen.trials])
        trials = [row for row in chosen.trials if row.id not in damaged]
        notes += [f"trial {number} is missing: {reason}" for number, reason in damaged.items()]
        keys = _numeric_keys(statistics)
        drawn_first = _drawn_first(metric, list(keys), chosen)
        curves: dict[str, Curves] = {}
        if drawn_first is not None:
            order = [drawn_first, *(key for key in keys if key != drawn_first)]
            curves = _curves(reader, trials, {key: keys[key] for key in order}, axis)
            if len(curves) < len(keys):
                notes.append(f"It has {len(curves)} of {counted(len(keys), 'metric')}; metric= chooses another.")
    return ChartData(
        trials,
        chosen.experiments,
        _differing_settings(trials),
        axis,
        drawn_first,
        curves,
        {}
        if drawn_first is None
        else {
            number: of_trial[keys[drawn_first]]
            for number, of_trial in statistics.items()
            if keys[drawn_first] in of_trial
        },
        notes,
    )


def _statistics(
    reader: CurveReader, trial_ids: Sequence[int]
) -> tuple[dict[int, dict[Key, Statistics]], dict[int, str]]:
    """Return the statistics of all metrics by trial id, and why those of other trials cannot be read."""
    from determined.curves.read import DamagedReports

    found = reader.summaries(trial_ids)
    known, damaged = dict(found.known), dict[int, str]()
    for trial_id in found.pending:
        try:
            known[trial_id] = reader.summarize(trial_id)
        except DamagedReports as error:
            damaged[trial_id] = str(error)
    return known, damaged


def _numeric_keys(statistics: Mapping[int, Mapping[Key, Statistics]]) -> dict[str, Key]:
    """Return the metrics of which some values are numbers, in order, by the text that names them."""
    numeric = {key for of_trial in statistics.values() for key, each in of_trial.items() if each.total is not None}
    return {metric_keys.join(*key): key for key in sorted(numeric)}


def _drawn_first(metric: str | None, keys: Sequence[str], chosen: ChosenTrials) -> str | None:
    """Return the metric that is drawn first: the given one, or that of the searcher; None if there are no metrics."""
    if metric is None:
        searched = [chosen.experiments[row.experiment_id].metric for row in chosen.trials]
        return metric_keys.first_drawn(next(filter(None, searched), None), keys)
    found = metric_keys.named(metric, keys)
    if found is None:
        known = ", ".join(keys[:20]) + (", …" if len(keys) > 20 else "")
        raise ValueError(f"no trial has reported numbers for {metric!r}; there are: {known or 'no metrics'}")
    return found


def _curves(reader: CurveReader, trials: Sequence[Trial], keys: Mapping[str, Key], axis: Axis) -> dict[str, Curves]:
    """Return the data of metrics until the limit is reached; those of the first one in any case."""
    ids = [row.id for row in trials]
    started = {one.trial_id: one.started for one in reader.store.reports.versions(ids)}
    drawn = [DrawnTrial(row.id, row.state, started.get(row.id)) for row in trials]
    most = max(_FEWEST_POINTS, min(_MOST_POINTS, _MOST_NUMBERS // (2 * max(1, len(ids)))))
    attempts = reader.attempt_places(ids[0], axis) if len(ids) == 1 else {}
    found: dict[str, Curves] = {}
    numbers = 0
    for text, key in list(keys.items())[:_MOST_METRICS]:
        drawing = reader.drawing(ids, key, axis, most=most)
        numbers += len(drawing.x) * (2 * len(ids) + 1)
        if found and numbers > _MOST_NUMBERS:
            break
        found[text] = curves_data(drawing, drawn, axis, version="", note=reader.cache.trouble, attempts=attempts)
    return found


def _differing_settings(trials: Sequence[Trial]) -> dict[int, dict[str, Any]]:
    """Return the hyperparameters, secrets masked, that are not the same for all trials."""
    settings = {row.id: flat(mask_secrets(row.effective_hparams)) for row in trials}
    names = dict.fromkeys(name for of_trial in settings.values() for name in of_trial)
    differing = [name for name in names if len({repr(of_trial.get(name)) for of_trial in settings.values()}) > 1]
    return {
        number: {name: of_trial[name] for name in differing if name in of_trial}
        for number, of_trial in settings.items()
    }


def short_value(value: Any) -> str:
    """Return a value as a short text."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _numbers(array: Any) -> list[float | None]:
    """Return the array of a curve as a list with as few digits as its precision needs; NaN means no value."""
    return [None if text == "nan" else float(text) for text in array.astype(str)]
