"""Experiments with their checkpoints, outputs and code in one file, and out of it on another machine."""
