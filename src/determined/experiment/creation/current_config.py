"""The current configuration of an experiment: as created or continued, with later changes of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from determined.config.storage_directory import RETENTION
from determined.experiment.files import ExperimentFiles
from determined.store.experiment_records import Experiment, JournalEntry

# Settings that can change while the experiment runs: for these the store has the current value. Everything else is read
# from the experiment's files, which also contain the secrets.
_SETTABLE = {"checkpoint_storage": RETENTION, "resources": ("max_slots", "engine"), "searcher": ("max_trials",)}


def present_config(files: ExperimentFiles, row: Experiment, journal: Sequence[JournalEntry]) -> dict[str, Any]:
    """Return the current configuration of an experiment, including secrets.

    Each continuation has left a configuration file that is named after its journal entry.
    """
    continued = continuations(journal)
    return with_settings(files.read_config(continued[-1] if continued else None), row.config)


def continuations(journal: Sequence[JournalEntry]) -> list[int]:
    """Return the numbers of the journal entries at which an experiment was continued with another configuration."""
    return [entry.sequence for entry in journal if entry.event["event"] == "reopened"]


def with_settings(config: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the values of `kept`, the store's copy, that may have been set since."""
    present = dict(config)
    for block, names in _SETTABLE.items():
        values = {name: value for name, value in (kept.get(block) or {}).items() if name in names}
        if values:
            present[block] = {**(present.get(block) or {}), **values}
    return present
