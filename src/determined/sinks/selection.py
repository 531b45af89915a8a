"""Selects the sinks of a run: those in its configuration and those that `DET_SINKS` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from determined.config.registry.sinks import SINKS
from determined.errors import InvalidConfigurationException, MissingExtraError

if TYPE_CHECKING:
    from determined.sinks.base import Sink


def chosen_sinks(block: Any, env: Mapping[str, str]) -> list[Sink]:
    """Return the sinks of a run with this `sinks` block. No client is imported yet.

    Raise for an unknown name or a missing package.
    """
    by_env = _named_by(env.get("DET_SINKS", ""))
    if not block and not by_env:
        return []
    from determined.config.blocks.sinks import read_sinks
    from determined.config.registry.implementation import load

    # Validated here: the configuration of a standalone run was not validated before.
    given = read_sinks(block or {})
    chosen = []
    for name, sink in SINKS.items():
        if name not in given and name not in by_env:
            continue
        if sink.package is not None and not _is_installed(sink.package):
            raise MissingExtraError(
                f'the sink {name} needs the package {sink.package}: pip install "determined-pytorch[{sink.package}]"'
            )
        kind = load(sink.implementation)
        chosen.append(kind(given.get(name) or kind.Settings()))
    return chosen


def _is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    # Here: importing a client takes seconds, so only its presence is checked.
    from importlib.util import find_spec

    return find_spec(package) is not None


def _named_by(text: str) -> list[str]:
    """Parse DET_SINKS. Raise for an unknown name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SINKS:
            raise InvalidConfigurationException(
                message=f"DET_SINKS names {name!r}, which is no sink: expected some of {', '.join(SINKS)}"
            )
    return names
