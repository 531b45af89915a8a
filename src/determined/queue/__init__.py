"""The queue: a daemon runs experiments in the background and shares the slots of this machine among them."""
