"""Forwards metrics to MLflow. A trial is a run of an MLflow experiment, found again by a tag."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from typing import Any

from determined.config.blocks.block import Block
from determined.config.flattening import flat
from determined.config.validators import FilledText
from determined.optional import require
from determined.sinks.base import Begin, CheckpointReference, Known, Report, Sink, last_steps
from determined.store.states import EndState

# Stored in MLflow, so these names cannot change: runs of earlier versions are found by them.
_KEY = "determined.key"
_STEPS = "determined.steps_completed"  # tag with the last step that was sent, by group
_STATUS = {
    "completed": "FINISHED",
    "stopped": "KILLED",
    "canceled": "KILLED",
    "failed": "FAILED",
}

# Limits of MLflow servers, including older versions.
_LONGEST_NAME, _LONGEST_PARAM, _LONGEST_TAG = 250, 500, 5000
_MOST_TAGS, _MOST_PARAMS, _MOST_METRICS = 90, 90, 900  # per call; the limits are 100, 100 and 1000 in total
_NOT_IN_EXPERIMENTS = re.compile(r"""['"`;\n\r]+""")  # MLflow's client inserts the name into a query unescaped
_NOT_IN_NAMES = re.compile(r"[^/\w.\- :]")


class MlflowSettings(Block):
    """Settings for MLflow.

    Fields that are not set follow MLflow's environment variables, such as MLFLOW_TRACKING_URI.
    """

    tracking_uri: FilledText | None = None
    experiment: FilledText | None = None


class MlflowSink(Sink):
    """A sink for MLflow.

    It sends metrics, parameters and tags, but no files, which would need access to artifact storage.
    """

    name = "mlflow"
    Settings = MlflowSettings

    def __init__(self, settings: MlflowSettings) -> None:
        self._settings = settings
        self._client: Any = None
        self._entities: Any = None
        self._run_id = ""
        self._sent: Known = {}

    def open(self, begin: Begin) -> Known:
        mlflow = require("mlflow", extra="mlflow", purpose="the sink mlflow")
        self._entities = require("mlflow.entities", extra="mlflow", purpose="the sink mlflow")
        self._client = mlflow.MlflowClient(tracking_uri=self._settings.tracking_uri)
        experiment_id = self._experiment_id(begin)
        # The key is hexadecimal, so it needs no escaping.
        found = self._client.search_runs([experiment_id], f"tags.`{_KEY}` = '{begin.key}'", max_results=1)
        if found:
            run = found[0]
            # MLflow shows an ended run as ended until its status is set again.
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            run = self._client.create_run(experiment_id, run_name=begin.name, tags={_KEY: begin.key})
        self._run_id = run.info.run_id
        self._describe(begin, known=run.data.params)
        self._sent = json.loads(run.data.tags.get(_STEPS, "{}"))
        return dict(self._sent)

    def send(self, events: Sequence[Report | CheckpointReference]) -> None:
        metrics = [metric for event in events if isinstance(event, Report) for metric in self._metrics(event)]
        # The last part carries the tag, see below; with no metrics there is still one call for it.
        *before, last = _parts(metrics, _MOST_METRICS) or [[]]
        for some in before:
            self._log(metrics=some)
        self._log_tags(_references(events))
        sent = self._sent | last_steps(events)
        # In one call, so that a step is marked as sent only together with its metrics.
        self._log(metrics=last, tags=[self._entities.RunTag(_STEPS, json.dumps(sent))])
        self._sent = sent

    def end(self, state: EndState) -> None:
        self._client.set_terminated(self._run_id, status=_STATUS[state])

    def abandon(self) -> None:
        """Do nothing: MLflow's threads end with the process."""

    def _experiment_id(self, begin: Begin) -> str:
        """Return the id of the MLflow experiment, which is created if necessary."""
        given = self._settings.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME")
        name = given or _NOT_IN_EXPERIMENTS.sub("_", begin.experiment)[:_LONGEST_NAME]
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except Exception:
                found = self._client.get_experiment_by_name(name)  # another trial has created it meanwhile
                if found is None:
                    raise
        return str(found.experiment_id)

    def _describe(self, begin: Begin, known: dict[str, str]) -> None:
        """Send the hyperparameters as parameters, and ids, labels, description and configuration as tags."""
        # MLflow rejects changes of a parameter, so only parameters that the run does not have yet are sent.
        given = {_named(name): _text(value, _LONGEST_PARAM) for name, value in flat(begin.hparams).items()}
        params = [self._entities.Param(name, value) for name, value in given.items() if name not in known]
        tags = {
            "determined.experiment_id": str(begin.experiment_id),
            "determined.trial_id": str(begin.trial_id),
            "determined.labels": ", ".join(begin.labels),
            "mlflow.note.content": begin.description,
            **{f"determined.config.{name}": _text(value, _LONGEST_TAG) for name, value in begin.config.items()},
        }
        self._log_tags({name: value for name, value in tags.items() if value})
        for some in _parts(params, _MOST_PARAMS):
            self._log(params=some)

    def _metrics(self, report: Report) -> list[Any]:
        """Return the metrics of a report as objects of MLflow."""
        at = int(report.reported * 1000)  # MLflow takes milliseconds
        return [
            self._entities.Metric(_named(name), value, at, report.steps_completed)
            for name, value in report.values().items()
        ]

    def _log_tags(self, tags: dict[str, str]) -> None:
        """Set tags of the run."""
        made = [self._entities.RunTag(_named(name), value[:_LONGEST_TAG]) for name, value in tags.items()]
        for some in _parts(made, _MOST_TAGS):
            self._log(tags=some)

    def _log(self, **what: list[Any]) -> None:
        # Synchronously, because an error must reach the sender, which retries.
        self._client.log_batch(self._run_id, **what, synchronous=True)


def _parts(items: list[Any], longest: int) -> list[list[Any]]:
    """Split items into lists of limited length."""
    return [items[at : at + longest] for at in range(0, len(items), longest)]


def _references(events: Sequence[Report | CheckpointReference]) -> dict[str, str]:
    """Return the checkpoints among the events as tags."""
    return {
        f"determined.checkpoint.{event.steps_completed}": f"{event.checkpoint_id} in {event.storage}"
        for event in events
        if isinstance(event, CheckpointReference)
    }


def _text(value: Any, longest: int) -> str:
    """Return a value as text of limited length."""
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _named(name: str) -> str:
    """Return a valid MLflow name for a metric, parameter or tag; valid names are unchanged."""
    parts = [part if part.strip(".") else "_" for part in _NOT_IN_NAMES.sub("_", name).split("/")]
    cleaned = "/".join(parts)
    if len(cleaned) <= _LONGEST_NAME:
        return cleaned
    # A digest keeps long names apart that begin in the same way.
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{cleaned[: _LONGEST_NAME - 13]}-{digest}"
