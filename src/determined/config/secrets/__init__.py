"""Masks secrets in configurations and texts."""
