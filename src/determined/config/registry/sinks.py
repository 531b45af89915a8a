"""The registry of sinks: the fields of the `sinks` block and the names in DET_SINKS."""

from __future__ import annotations

from typing import NamedTuple


class SinkType(NamedTuple):
    """A registered sink: its implementation, and the package that it needs."""

    implementation: str  # `module:class`; the class is a `determined.sinks.base.Sink`
    package: str | None = None  # what it imports, installed by the extra of the same name; None if it needs nothing


SINKS = {
    "mlflow": SinkType("determined.sinks.mlflow_sink:MlflowSink", package="mlflow"),
    "wandb": SinkType("determined.sinks.wandb_sink:WandbSink", package="wandb"),
    "trackio": SinkType("determined.sinks.trackio_sink:TrackioSink", package="trackio"),
}
