"""What a user sees while training runs."""
