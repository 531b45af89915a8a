"""Engines: start, watch and stop the processes of trials on the slots of a machine."""
