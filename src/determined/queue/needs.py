"""How many slots an experiment will want, before its runner can say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from determined.experiment.settings import settings_of


@dataclass(frozen=True)
class Needs:
    """`wants` is at most what all of its trials could use."""

    slots_per_trial: int
    wants: int


def needs_of(config: dict[str, Any], most: int) -> Needs:
    """Return what a configuration asks for, out of at most this many slots."""
    settings = settings_of(config)
    trials = [settings.max_trials, config["searcher"].get("max_concurrent_trials")]
    limits = [count * settings.slots_per_trial for count in trials if count]
    return Needs(settings.slots_per_trial, min([*limits, settings.max_slots or most, most]))
