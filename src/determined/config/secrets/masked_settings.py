"""Settings whose secret values were replaced by asterisks, as in a configuration that comes from another machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from determined.config.secrets.masking import MASK, mask_secrets

_VARIABLES = "environment.environment_variables"


@dataclass(frozen=True)
class MaskedSettings:
    """The masked parts of a configuration: names of settings, and names of environment variables of trials."""

    settings: tuple[str, ...]
    variables: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.settings or self.variables)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all masked settings and variables, as shown to the user."""
        return (*self.settings, *(f"{_VARIABLES} ({name})" for name in self.variables))


def masked_settings(config: Mapping[str, Any]) -> MaskedSettings:
    """Return the settings of a configuration that hold asterisks in place of a secret."""
    settings: dict[str, None] = {}
    variables: dict[str, None] = {}
    # Asterisks that masking does not put there, as in a description, are a value like any other.
    # Masked again after the asterisks were replaced: only fields that masking would hide contain a masked secret.
    for name, text in _masked(config, mask_secrets(_with_other_secrets(config)), ""):
        if name == _VARIABLES or name.startswith(f"{_VARIABLES}."):
            variables[text.partition("=")[0]] = None
        else:
            settings[name] = None
    return MaskedSettings(tuple(settings), tuple(variables))


def with_variables(config: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration with masked environment variables taken from an environment that has them.

    An entry without a value, as `MY_TOKEN`, means the value that the variable has where the experiment runs.
    """
    known = {f"{name}={MASK}": name for name in masked_settings(config).variables if name in environment}
    block = config.get("environment") or {}
    if not known:
        return config
    given = block["environment_variables"]
    if isinstance(given, dict):
        changed: Any = {device: [known.get(entry, entry) for entry in entries] for device, entries in given.items()}
    else:
        changed = [known.get(entry, entry) for entry in given]
    return {**config, "environment": {**block, "environment_variables": changed}}


def _with_other_secrets(value: Any) -> Any:
    """Return a value with another text in place of each mask."""
    if isinstance(value, Mapping):
        return {key: _with_other_secrets(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_other_secrets(inner) for inner in value]
    return value.replace(MASK, "x") if isinstance(value, str) else value


def _masked(value: Any, masked_again: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each setting that contains a mask where masking puts one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _masked(inner, masked_again[key], f"{name}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for inner, inner_again in zip(value, masked_again, strict=True):
            yield from _masked(inner, inner_again, name)
    elif isinstance(value, str) and MASK in value and value == masked_again:
        yield name, value
