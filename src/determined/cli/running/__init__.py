"""Run an experiment in the foreground and show its progress."""
