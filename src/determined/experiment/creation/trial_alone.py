"""The settings with which a fork of a search trains the hyperparameters of one of its trials, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from determined.config.hyperparameters import is_fixed, leaves, nest
from determined.config.registry.search_methods import one_trial_method
from determined.config.secrets.masked_settings import masked_settings
from determined.config.secrets.masking import MASK, mask_secrets
from determined.config.stored import StoredConfig
from determined.errors import InvalidConfigurationException
from determined.store.experiment_records import Experiment, Trial

# A name that a dotted path can contain. A value under the name `vals` would be read as a list.
_PLAIN_NAME = re.compile(r"(?!vals$)[A-Za-z_][A-Za-z0-9_-]*")


class TrialAlone(NamedTuple):
    """Settings, each `KEY=VALUE` as `--config` takes them, and which of their values are masked, or None."""

    settings: list[str]
    note: str | None


def trial_alone(experiment: Experiment, trial: Trial) -> TrialAlone:
    """Return the settings of a fork that trains the hyperparameters of a trial alone, secrets masked.

    Hyperparameters that the search does not vary come from the configuration.
    """
    chosen = list(_chosen(experiment, trial))
    shown = mask_secrets(nest(chosen))
    settings = [_setting(path, _at(shown, path)) for path, _ in chosen]
    masked = masked_settings(shown).settings
    note = f"Replace {MASK} by the secret value of {', '.join(masked)}." if masked else None
    return TrialAlone([f"searcher.name={one_trial_method()}", *settings], note)


def _chosen(experiment: Experiment, trial: Trial) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each hyperparameter that the search varies."""
    try:
        space = list(leaves(StoredConfig(experiment.config).hyperparameters))
    except InvalidConfigurationException:  # of a store that another version has written
        return
    for path, leaf in space:
        try:
            if not is_fixed(leaf):
                yield path, _at(trial.hparams, path)
        except (KeyError, TypeError):  # a trial of a continued experiment may have been created without it
            continue


def _at(values: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path of nested maps."""
    for name in path:
        values = values[name]
    return values


def _setting(path: tuple[str, ...], value: Any) -> str:
    """Return the setting of a hyperparameter. Names that a dotted path cannot contain are keys of a map."""
    plain = next((depth for depth, name in enumerate(path) if not _PLAIN_NAME.fullmatch(name)), len(path))
    # The search space is merged with maps: only a constant replaces a range as a whole. Null would remove it.
    text = f'{{"type": "const", "val": {_yaml(value)}}}' if value is None or isinstance(value, dict) else _yaml(value)
    for name in reversed(path[plain:]):
        text = f"{{{_yaml(name)}: {text}}}"
    return f"{'.'.join(('hyperparameters', *path[:plain]))}={text}"


def _yaml(value: Any) -> str:
    """Return plain data as YAML in one line: as JSON, but for characters and numbers that JSON writes otherwise."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_yaml(str(name))}: {_yaml(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, float) and value - value != 0:
        return ".nan" if value != value else ".inf" if value > 0 else "-.inf"
    text = json.dumps(value, ensure_ascii=False)  # YAML has no surrogate pairs
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)
