"""The configuration of a run that a program opens itself (`core_v2`)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class _Description:
    """The fields that describe a run."""

    name: str | None = None
    hparams: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    description: str | None = None
    labels: list[str] | None = None
    workspace: str | None = None
    project: str | None = None
    checkpoint_storage: str | dict[str, Any] | None = None
    searcher: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_types(self)


@dataclass(frozen=True)
class Config(_Description):
    """The description of a run, with the fields of an experiment configuration; every field is optional.

    Args:
        external_experiment_id, external_trial_id: names that the program chooses. A trial that is known under both
            continues from its latest checkpoint; an experiment that is known gets one more trial.
        workspace, project: stored in the configuration; there are no workspaces and projects.
        notes: longer text about a new experiment, as `Experiment.set_notes` writes it.
    """

    external_experiment_id: str | None = None
    external_trial_id: str | None = None
    notes: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("external_experiment_id", "external_trial_id"):
            if getattr(self, name) == "":
                raise ValueError(f"Config.{name} must not be empty")
        # Names of trials are unique within an experiment only.
        if self.external_trial_id is not None and self.external_experiment_id is None:
            raise ValueError(
                "Config.external_trial_id requires an external_experiment_id, within which names of trials are unique"
            )


@dataclass(frozen=True)
class DefaultConfig(_Description):
    """The default values of a run, in the form of release 0.25; use `Config`."""


@dataclass(frozen=True)
class UnmanagedConfig:
    """The names by which a run is found again, in the form of release 0.25; use `Config`."""

    workspace: str | None = None
    project: str | None = None
    external_experiment_id: str | None = None
    external_trial_id: str | None = None

    def __post_init__(self) -> None:
        _check_types(self)


def combine(
    config: Config | None, defaults: DefaultConfig | None = None, unmanaged: UnmanagedConfig | None = None
) -> Config:
    """Return one `Config` from either form of arguments; raise ValueError if both forms are given."""
    for name, value, kind in (
        ("config", config, Config),
        ("defaults", defaults, DefaultConfig),
        ("unmanaged", unmanaged, UnmanagedConfig),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be a core_v2.{kind.__name__}, got {value!r}")
    if config is not None:
        if defaults is not None or unmanaged is not None:
            raise ValueError("give either config or defaults and unmanaged, not both: config holds the fields of both")
        return config
    given: dict[str, Any] = {}
    for part in (defaults, unmanaged):
        if part is not None:
            named = {field.name: getattr(part, field.name) for field in fields(part)}
            # Fields that both parts have may be set in either.
            given |= {name: value for name, value in named.items() if value is not None}
    return Config(**given)


def experiment_config(config: Config) -> dict[str, Any]:
    """Return the configuration as it is stored with the run."""
    given: dict[str, Any] = {
        "name": config.name,
        "description": config.description,
        "labels": None if config.labels is None else list(config.labels),
        "data": config.data,
        "hyperparameters": config.hparams,
        "searcher": config.searcher,
        "checkpoint_storage": config.checkpoint_storage,
        "workspace": config.workspace,
        "project": config.project,
    }
    return {name: value for name, value in given.items() if value is not None}


def _check_types(config: _Description | UnmanagedConfig) -> None:
    """Raise TypeError for fields of the wrong type."""
    owner = type(config).__name__
    for name, kind, wanted in _KINDS:
        value = getattr(config, name, None)
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{owner}.{name} must be {wanted}, got {value!r}")
    labels = getattr(config, "labels", None) or ()
    if not all(isinstance(label, str) for label in labels):
        raise TypeError(f"{owner}.labels must be a list of strings, got {labels!r}")


_TEXT = (str, "a string")
_MAP = (dict, "a dict")
_KINDS: list[tuple[str, Any, str]] = [
    ("name", *_TEXT),
    ("hparams", *_MAP),
    ("data", *_MAP),
    ("description", *_TEXT),
    ("notes", *_TEXT),
    ("labels", (list, tuple, set), "a list of strings"),
    ("workspace", *_TEXT),
    ("project", *_TEXT),
    ("checkpoint_storage", (str, dict), "a string or a dict"),
    ("searcher", *_MAP),
    ("external_experiment_id", *_TEXT),
    ("external_trial_id", *_TEXT),
]
