"""Size, consistency checks, backup and vacuum of a store."""
