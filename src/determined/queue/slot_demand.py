"""The number of slots that an experiment needs, estimated from its configuration before its runner reports it."""

from __future__ import annotations

from dataclasses import dataclass

from determined.config.stored import StoredConfig
from determined.experiment.runner.settings import settings_of


@dataclass(frozen=True)
class SlotDemand:
    """The slots of one trial, and the number of slots that all concurrent trials could use (`wants`)."""

    slots_per_trial: int
    wants: int


def slot_demand_of(config: StoredConfig, most: int) -> SlotDemand:
    """Return the slots that a configuration asks for, limited to `most`."""
    settings = settings_of(config)
    trials = [settings.max_trials, config.searcher.max_concurrent_trials]
    # 0 and None mean no limit.
    limits = [count * settings.slots_per_trial for count in trials if count]
    return SlotDemand(settings.slots_per_trial, min([*limits, settings.max_slots or most, most]))
