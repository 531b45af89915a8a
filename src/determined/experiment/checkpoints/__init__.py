"""Checkpoints and outputs of experiments: download, metadata, retention."""
