"""Search methods as state machines: they receive events and return which trials to create, continue, pause and stop."""
