"""Backward, optimizer steps, mixed precision and learning-rate schedulers."""
