"""Selects the sinks of a run: those in its configuration and those that `DET_SINKS` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from determined.errors import InvalidConfigurationException, MissingExtraError

if TYPE_CHECKING:
    from determined.config.blocks.sinks import Sinks
    from determined.sinks.base import Sink

_NAMES = ("mlflow", "wandb", "trackio")  # the same in the configuration, the extras and the packages


def chosen_sinks(config: Mapping[str, Any], env: Mapping[str, str]) -> list[Sink]:
    """Return the sinks of a run. Raise for an unknown name or a missing package; no client is imported yet."""
    block, by_env = config.get("sinks"), _named_by(env.get("DET_SINKS", ""))
    if not block and not by_env:
        return []
    from determined.config.blocks.sinks import read_sinks

    settings = read_sinks(block or {})
    names = [name for name in _NAMES if getattr(settings, name) is not None or name in by_env]
    for name in names:
        if not _is_installed(name):
            raise MissingExtraError(
                f'the sink {name} needs the package {name}: pip install "determined-pytorch[{name}]"'
            )
    return [_build(name, settings) for name in names]


def _is_installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def _named_by(text: str) -> list[str]:
    """Parse DET_SINKS. Raise for an unknown name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _NAMES:
            raise InvalidConfigurationException(
                message=f"DET_SINKS names {name!r}, which is no sink: expected some of {', '.join(_NAMES)}"
            )
    return names


def _build(name: str, settings: Sinks) -> Sink:
    from determined.config.blocks import sinks

    if name == "mlflow":
        from determined.sinks.mlflow_sink import MlflowSink

        return MlflowSink(settings.mlflow or sinks.Mlflow())
    if name == "wandb":
        from determined.sinks.wandb_sink import WandbSink

        return WandbSink(settings.wandb or sinks.Wandb())
    from determined.sinks.trackio_sink import TrackioSink

    return TrackioSink(settings.trackio or sinks.Trackio())
