"""The command `det`."""
