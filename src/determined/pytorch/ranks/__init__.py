"""Training on several ranks."""
