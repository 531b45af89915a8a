"""YAML in, plain data out."""
