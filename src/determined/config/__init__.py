"""YAML in, plain data out."""

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.length import Length, parse_length
from determined.config.load import load_yaml

__all__ = ["Length", "load_yaml", "parse_length", "sample_hyperparameters"]
