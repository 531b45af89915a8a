"""Create, continue and plan experiments."""
