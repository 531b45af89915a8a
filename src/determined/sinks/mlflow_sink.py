"""MLflow: a trial is a run of an MLflow experiment, found again by a tag."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from determined.config.sinks import Mlflow
from determined.optional import require
from determined.sinks.base import Begin, CheckpointReference, EndState, Known, Report

_KEY = "determined.key"
_STEPS = "determined.steps_completed."  # with a group behind it: the last step of that group which was sent
_STATUS = {"completed": "FINISHED", "stopped": "KILLED", "failed": "FAILED", "running": "RUNNING"}

# What MLflow's servers take, the older ones included.
_LONGEST_NAME, _LONGEST_PARAM, _LONGEST_TAG = 250, 500, 5000
_MOST_PARAMS, _MOST_METRICS = 100, 1000
_NOT_IN_NAMES = re.compile(r"[^/\w.\- :]")


class MlflowSink:
    """Metrics, parameters and tags; no files, which would need a way to MLflow's artifact storage."""

    name = "mlflow"

    def __init__(self, settings: Mlflow) -> None:
        self._settings = settings
        self._client: Any = None
        self._entities: Any = None
        self._run_id = ""

    def open(self, begin: Begin) -> Known:
        mlflow = require("mlflow", extra="mlflow", purpose="the sink mlflow")
        self._entities = require("mlflow.entities", extra="mlflow", purpose="the sink mlflow")
        self._client = mlflow.MlflowClient(tracking_uri=self._settings.tracking_uri)
        experiment_id = self._experiment_id(begin)
        found = self._client.search_runs([experiment_id], f"tags.`{_KEY}` = '{begin.key}'", max_results=1)
        if found:
            run = found[0]
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            run = self._client.create_run(experiment_id, run_name=begin.name, tags={_KEY: begin.key})
        self._run_id = run.info.run_id
        self._describe(begin, known=run.data.params)
        tags = run.data.tags
        return {name.removeprefix(_STEPS): int(tags[name]) for name in tags if name.startswith(_STEPS)}

    def send(self, events: Sequence[Report | CheckpointReference]) -> None:
        metrics = [metric for event in events if isinstance(event, Report) for metric in self._metrics(event)]
        *before, last = [metrics[at : at + _MOST_METRICS] for at in range(0, max(1, len(metrics)), _MOST_METRICS)]
        for some in before:
            self._log(metrics=some)
        # What was sent last is written with it, so that both are known or neither.
        self._log(metrics=last, tags=self._tags(dict(_positions(events))))

    def end(self, state: EndState) -> None:
        self._client.set_terminated(self._run_id, status=_STATUS[state])

    def abandon(self) -> None:
        """Its threads end with the process."""

    def _experiment_id(self, begin: Begin) -> str:
        name = self._settings.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or begin.experiment
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except Exception:
                found = self._client.get_experiment_by_name(name)  # another trial was faster
                if found is None:
                    raise
        return str(found.experiment_id)

    def _describe(self, begin: Begin, known: dict[str, str]) -> None:
        # A parameter can never change in MLflow: what a run has stays, and what is new is added.
        given = {_named(name): _text(value, _LONGEST_PARAM) for name, value in _flat(begin.hparams)}
        params = [self._entities.Param(name, value) for name, value in given.items() if name not in known]
        tags = {
            "determined.experiment_id": str(begin.experiment_id),
            "determined.trial_id": str(begin.trial_id),
            "determined.labels": ", ".join(begin.labels),
            "mlflow.note.content": begin.description,
            **{f"determined.config.{name}": _text(value, _LONGEST_TAG) for name, value in begin.config.items()},
        }
        self._log(tags=self._tags({name: value for name, value in tags.items() if value}))
        for at in range(0, len(params), _MOST_PARAMS):
            self._log(params=params[at : at + _MOST_PARAMS])

    def _metrics(self, report: Report) -> list[Any]:
        at = int(report.reported * 1000)
        return [
            self._entities.Metric(_named(name), value, at, report.steps_completed)
            for name, value in report.values().items()
        ]

    def _tags(self, tags: dict[str, str]) -> list[Any]:
        return [self._entities.RunTag(_named(name), value[:_LONGEST_TAG]) for name, value in tags.items()]

    def _log(self, **what: list[Any]) -> None:
        self._client.log_batch(self._run_id, **what, synchronous=True)


def _positions(events: Sequence[Report | CheckpointReference]) -> Iterator[tuple[str, str]]:
    last: Known = {}
    for event in events:
        if isinstance(event, Report):
            last[event.group] = max(event.steps_completed, last.get(event.group, 0))
        else:
            yield f"determined.checkpoint.{event.steps_completed}", f"{event.uuid} in {event.storage}"
    for group, steps in last.items():
        yield f"{_STEPS}{group}", str(steps)


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _text(value: Any, longest: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _named(name: str) -> str:
    """A name that MLflow takes for a metric, a parameter or a tag: others stay what they are."""
    parts = [part if part.strip(".") else "_" for part in _NOT_IN_NAMES.sub("_", name).split("/")]
    cleaned = "/".join(parts)
    if len(cleaned) <= _LONGEST_NAME:
        return cleaned
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{cleaned[: _LONGEST_NAME - 13]}-{digest}"
