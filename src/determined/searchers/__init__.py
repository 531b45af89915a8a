"""Which trials to create, continue, pause and stop: state machines that are told events and return actions."""
