"""Open a run, stop it early, and end it."""
