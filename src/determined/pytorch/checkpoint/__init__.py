"""Save and restore training, in files that are read without unpickling."""
