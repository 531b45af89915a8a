"""What a program says about a run that it opens by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Config:
    """The run's experiment, in the words of an experiment configuration; all of it may be left out.

    Args:
        external_experiment_id, external_trial_id: what the program calls them. A trial that is known under both goes
            on with its latest checkpoint; an experiment that is known gets one more trial.
        workspace, project: noted in the configuration; there are none here.
    """

    name: str | None = None
    hparams: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    description: str | None = None
    labels: list[str] | None = None
    workspace: str | None = None
    project: str | None = None
    checkpoint_storage: str | dict[str, Any] | None = None
    searcher: dict[str, Any] | None = None
    external_experiment_id: str | None = None
    external_trial_id: str | None = None

    def __post_init__(self) -> None:
        for name, kind, wanted in _KINDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"Config.{name} must be {wanted}, got {value!r}")
        if isinstance(self.labels, (list, tuple, set)) and not all(isinstance(label, str) for label in self.labels):
            raise TypeError(f"Config.labels must be a list of texts, got {self.labels!r}")
        for name in ("external_experiment_id", "external_trial_id"):
            if getattr(self, name) == "":
                raise ValueError(f"Config.{name} must not be empty")
        if self.external_trial_id is not None and self.external_experiment_id is None:
            raise ValueError(
                "Config.external_trial_id needs an external_experiment_id: names of trials are told apart by it"
            )


def experiment_config(config: Config) -> dict[str, Any]:
    """As it is kept with the run."""
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


_TEXT = (str, "a text")
_MAP = (dict, "a dict")
_KINDS: list[tuple[str, Any, str]] = [
    ("name", *_TEXT),
    ("hparams", *_MAP),
    ("data", *_MAP),
    ("description", *_TEXT),
    ("labels", (list, tuple, set), "a list of texts"),
    ("workspace", *_TEXT),
    ("project", *_TEXT),
    ("checkpoint_storage", (str, dict), "a text or a dict"),
    ("searcher", *_MAP),
    ("external_experiment_id", *_TEXT),
    ("external_trial_id", *_TEXT),
]
