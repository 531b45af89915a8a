"""The connection of a process to the record of its run."""
