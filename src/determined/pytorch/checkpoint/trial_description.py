"""`load_data.json`: the description of a trial in its checkpoints, from which the trial can be created again."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from determined.config.secrets.masking import mask_secrets
from determined.config.stored import StoredConfig
from determined.core.jsonable import as_text, to_jsonable
from determined.pytorch.checkpoint.directory import read_json_object
from determined.pytorch.context import PyTorchTrialContext
from determined.user_code.program import this_program

logger = logging.getLogger("determined.pytorch")

FILE = "load_data.json"

# A configuration that was replaced as a whole differs in every line.
_MOST_SHOWN = 20
_MISSING = "(not set)"
# The default repr of an object contains its address, which differs in every process.
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_NAMES = {"hparams": "other hyperparameters", "experiment_config": "another configuration"}
_FIELDS = ("trial_cls_spec", "hparams", "experiment_config", "main_script", "main_module", "import_paths")


def describe(trial: Any, context: PyTorchTrialContext) -> dict[str, Any]:
    """Return the description of a trial: its class, where that is found, hyperparameters and configuration."""
    kind, program, code = type(trial), this_program(), context._code_dir
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # its name in a spawned process
    return {
        "trial_type": "PyTorchTrial",
        # Checkpoints are copied and shared, so they never hold secrets.
        "experiment_config": mask_secrets(to_jsonable(context._exp_conf, "exp_conf")),
        "hparams": to_jsonable(context._hparams, "hparams", otherwise=lambda value, _: as_text(value)),
        "trial_cls_spec": f"{module}:{kind.__qualname__}",
        "main_script": _below(code, program.file) if program.kind == "script" else None,
        "main_module": program.module,
        "import_paths": _import_paths(code),
        "is_trainer": True,
    }


def read_description(directory: Path) -> dict[str, Any]:
    """Return the description stored in a checkpoint of any release; unknown values are None.

    Releases before 0.17 have no `load_data.json`, and a `metadata.json` only if the download added one.
    """
    unknown: dict[str, Any] = dict.fromkeys(_FIELDS)
    for name in (FILE, "metadata.json"):
        if not (directory / name).is_file():
            continue
        found = read_json_object(directory / name, str(directory))
        if name == FILE:
            # Only a warning: the weights of another framework's checkpoint may be usable all the same.
            if found.get("trial_type") != "PyTorchTrial":
                logger.warning("checkpoint %s is of a %s, not of a PyTorchTrial", directory, found.get("trial_type"))
            return {**unknown, **found}
        config = found.get("experiment_config")
        if config is not None:
            return {**unknown, **found, "trial_cls_spec": StoredConfig(config).entrypoint}
    return unknown


def warn_of_differences(directory: Path, name: str, now: dict[str, Any]) -> None:
    """Log a warning that lists each hyperparameter and setting that changed since the checkpoint was saved.

    `now` is the description of this run's trial. Secrets are masked.
    """
    try:
        then = json.loads((directory / FILE).read_text(encoding="utf-8"))
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
    """Return a value as JSON text, which is compared instead of the value because NaN is not equal to itself."""
    return json.dumps(value, sort_keys=True, default=repr)


def _comparable(value: Any) -> str:
    """Return a value as JSON text without memory addresses, which differ between processes in the repr of objects."""
    return _ADDRESS.sub("at ...", _as_json(value))


def _shown(value: Any) -> str:
    """Return a value as text for a message, cut if it is long."""
    if isinstance(value, str) and value == _MISSING:
        return value
    text = _as_json(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _import_paths(code: Path | None) -> list[str]:
    """Return the directories below the program's directory where its modules are found, in search order."""
    # Installed packages are found on the machine that loads the checkpoint.
    installed = Path(sys.prefix).resolve()
    places = [Path(place).resolve() for place in sys.path]
    found = [_below(code, place) for place in places if place.is_dir() and not place.is_relative_to(installed)]
    return [place for place in dict.fromkeys(found) if place is not None]


def _below(directory: Path | None, path: Path | None) -> str | None:
    """Return the path relative to the directory, with slashes, or None if it lies elsewhere."""
    if directory is None or path is None or not path.is_relative_to(directory.resolve()):
        return None
    return path.relative_to(directory.resolve()).as_posix()
