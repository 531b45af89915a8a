"""The options and steps that all commands share that make experiments."""
