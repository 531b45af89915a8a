"""The runner: an experiment from its first trial to its last."""
