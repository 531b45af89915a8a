"""The part that runs on each node of a Ray cluster: an actor with a local engine."""
