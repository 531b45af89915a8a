"""The options and steps shared by all commands that create experiments."""
