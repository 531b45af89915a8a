"""The number of slots that an experiment needs, estimated from its configuration before its runner reports it."""

from __future__ import annotations

from dataclasses import dataclass

from determined.config.engine import parse_engine
from determined.config.stored import StoredConfig
from determined.experiment.runner.settings import settings_of


@dataclass(frozen=True)
class SlotDemand:
    """The slots of one trial, and the number of slots that all concurrent trials could use (`wants`)."""

    slots_per_trial: int
    wants: int
    on_cluster: bool = False  # its trials run on the slots of a cluster, and it needs none of this machine


def slot_demand_of(config: StoredConfig, most: int) -> SlotDemand:
    """Return the slots that a configuration asks for, limited to `most`."""
    settings = settings_of(config)
    if not parse_engine(config.resources.engine, "resources.engine").is_local:
        return SlotDemand(1, 0, on_cluster=True)
    trials = [settings.max_trials, config.searcher.max_concurrent_trials]
    # 0 and None mean no limit.
    limits = [count * settings.slots_per_trial for count in trials if count]
    return SlotDemand(settings.slots_per_trial, min([*limits, settings.max_slots or most, most]))
