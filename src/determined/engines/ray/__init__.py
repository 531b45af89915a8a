"""The engine that runs jobs on the nodes of a Ray cluster. Only `bridge.py` imports ray."""
