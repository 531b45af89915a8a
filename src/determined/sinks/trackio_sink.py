"""Forwards metrics to Trackio. A trial is a run, which is resumed by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from determined.config.blocks.block import Block
from determined.config.validators import FilledText
from determined.optional import require
from determined.sinks.base import Begin, CheckpointReference, Known, Report, Sink
from determined.store.states import EndState


class TrackioSettings(Block):
    """Settings for Trackio: a project on this machine, or in a Hugging Face space."""

    project: FilledText | None = None
    space_id: FilledText | None = None


class TrackioSink(Sink):
    """A sink for Trackio. Repeated steps appear twice, because Trackio cannot be asked for the last step."""

    name = "trackio"
    Settings = TrackioSettings

    def __init__(self, settings: TrackioSettings) -> None:
        self._settings = settings
        self._run: Any = None

    def open(self, begin: Begin) -> Known:
        trackio = require("trackio", extra="trackio", purpose="the sink trackio")
        self._run = trackio.init(
            project=self._settings.project or begin.experiment,
            space_id=self._settings.space_id,
            # Trackio resumes by name, so the name must be unique: part of the key distinguishes trials of different
            # stores.
            name=f"{begin.name}-{begin.key[:8]}",
            group=f"{begin.experiment}-{begin.experiment_id}",
            resume="allow",
            config={
                "hyperparameters": begin.hparams,
                "configuration": begin.config,
                "labels": list(begin.labels),
                "description": begin.description,
            },
            # Metrics of the machine are the profiler's, and a page must not open in a notebook.
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return {}

    def send(self, events: Sequence[Report | CheckpointReference]) -> None:
        for event in events:
            if isinstance(event, Report):
                row: dict[str, Any] = dict(event.values())
            else:
                row = {"checkpoint/uuid": event.checkpoint_id, "checkpoint/storage": event.storage}
            self._run.log(row, step=event.steps_completed)

    def end(self, state: EndState) -> None:
        self._run.finish()

    def abandon(self) -> None:
        """Do nothing: Trackio's threads end with the process."""
