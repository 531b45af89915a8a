"""Experiments and trials side by side."""
