"""Stores what a process prints as the log of its run."""
