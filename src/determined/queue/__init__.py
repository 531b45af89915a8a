"""Experiments that share the slots of a machine, and go on when whoever put them there is gone."""
