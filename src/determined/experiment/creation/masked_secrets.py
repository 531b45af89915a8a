"""Refuse to run an experiment whose secrets were masked, as an export does: trials would get asterisks for them."""

from __future__ import annotations

import os
from typing import Any

from determined.config.secrets.masked_settings import masked_settings, with_variables
from determined.errors import InvalidExperimentException
from determined.experiment.creation.current_config import present_config
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.store.experiment_records import Experiment
from determined.store.store import Store


def with_secrets(config: dict[str, Any], command: str) -> dict[str, Any]:
    """Return a configuration that can run, or raise `InvalidExperimentException` if secrets are still masked.

    Masked environment variables are taken from this process if it has them. `command` is the one that takes
    `--config` to set other settings.
    """
    config = with_variables(config, os.environ)
    masked = masked_settings(config)
    if not masked:
        return config
    advice = []
    if masked.variables:
        advice.append(f"set {', '.join(masked.variables)} in the environment of this command")
    if masked.settings:
        advice.append(f"use {command} {' '.join(f'--config {name}=VALUE' for name in masked.settings)}")
    raise InvalidExperimentException(
        f"the configuration holds asterisks in place of secrets: {', '.join(masked.names)}. "
        f"To run it: {', and '.join(advice)}"
    )


def continuing(experiment_id: int) -> str:
    """Return the command that sets secrets of an existing experiment."""
    return f"det experiment continue {experiment_id}"


def check_secrets(store: Store, experiment: Experiment) -> None:
    """Raise `InvalidExperimentException` if an experiment that is about to run lacks secrets, or its files."""
    directory = experiment_dir(experiment.key)
    # Without this file nothing can run, and the error of reading it later would be less clear.
    if directory is None or not (directory / "config.json").is_file():
        imported = " It was imported without code: export it with --code" if experiment.borrowed else ""
        raise InvalidExperimentException(f"its code and configuration are not on this machine.{imported}")
    journal = store.experiments.journal(experiment.id)
    with_secrets(present_config(ExperimentFiles(directory), experiment, journal), continuing(experiment.id))
