"""Log the settings that differ between the run that saved a checkpoint and the run that resumes from it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from determined.config.secrets.masking import mask_secrets

logger = logging.getLogger("determined.pytorch")

_MOST_SHOWN = 20
_MISSING = "(not set)"
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_NAMES = {"hparams": "other hyperparameters", "experiment_config": "another configuration"}


def tell(directory: Path, name: str, now: dict[str, Any]) -> None:
    """Log a warning that lists each changed hyperparameter and setting.

    `now` is the `load_data.json` that a checkpoint of this run would hold. Secrets are masked.
    """
    try:
        then = json.loads((directory / "load_data.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # releases before 0.17 did not store this file
    for key, described in _NAMES.items():
        if not isinstance(then, dict) or not isinstance(then.get(key), dict) or not isinstance(now.get(key), dict):
            continue
        lines = list(differences(mask_secrets(then[key]), mask_secrets(now[key])))
        if not lines:
            continue
        more = [f"and {len(lines) - _MOST_SHOWN} more"] if len(lines) > _MOST_SHOWN else []
        logger.warning(
            "checkpoint %s was saved with %s:\n  %s",
            name,
            described,
            "\n  ".join(lines[:_MOST_SHOWN] + more),
        )


def differences(then: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield one line per setting that differs, such as `optimizer.lr: 0.1 -> 0.2`."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in sorted({*then, *now}, key=str):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(then.get(key, _MISSING), now.get(key, _MISSING), below)
    elif _comparable(then) != _comparable(now):
        yield f"{path}: {_shown(then)} -> {_shown(now)}"


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)  # as text, because NaN is not equal to itself


def _comparable(value: Any) -> str:
    """Return a value as JSON text without memory addresses, which differ between processes in the repr of objects."""
    return _ADDRESS.sub("at ...", _as_json(value))


def _shown(value: Any) -> str:
    if isinstance(value, str) and value == _MISSING:
        return value
    text = _as_json(value)
    return text if len(text) <= 80 else text[:77] + "..."
