"""Experiments that share the slots of a machine, and go on when whoever put them there is gone."""

from determined.queue.adding import activate, add, resume

__all__ = ["activate", "add", "resume"]
