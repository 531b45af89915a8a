"""The configuration that an experiment runs by: as it was created or continued, with what people have set since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from determined.experiment.files import ExperimentFiles
from determined.store.experiment_records import Experiment, JournalEntry

GC_POLICY = ("save_experiment_best", "save_trial_best", "save_trial_latest")
# What can change while somebody runs it: the store has the last word, and everything else is in the experiment's files.
_SETTABLE = {"checkpoint_storage": GC_POLICY, "resources": ("max_slots",), "searcher": ("max_trials",)}


def present_config(files: ExperimentFiles, row: Experiment, journal: Sequence[JournalEntry]) -> dict[str, Any]:
    """With its secrets. Each continuation has left a file that is named after its entry in the journal."""
    continued = continuations(journal)
    return with_settings(files.read_config(continued[-1] if continued else None), row.config)


def continuations(journal: Sequence[JournalEntry]) -> list[int]:
    """Return the numbers of the entries at which an experiment was continued with another configuration."""
    return [entry.sequence for entry in journal if entry.event["event"] == "reopened"]


def with_settings(config: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with those values of `kept`, the one in the store, that may have been set since."""
    present = dict(config)
    for block, names in _SETTABLE.items():
        values = {name: value for name, value in (kept.get(block) or {}).items() if name in names}
        if values:
            present[block] = {**(present.get(block) or {}), **values}
    return present
