"""Programs that run in a worker process."""
