"""Commands that edit an existing experiment: labels, settings, retention of checkpoints, and the archive."""
