"""Export experiments with checkpoints, outputs and code to one archive file, and import them elsewhere."""
