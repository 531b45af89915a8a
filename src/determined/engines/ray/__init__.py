"""The engine that runs jobs on the nodes of a Ray cluster. The runner never imports ray; its child processes do."""
