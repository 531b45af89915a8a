"""Experiment configurations: parsing YAML, validation, defaults, and masking of secrets."""
