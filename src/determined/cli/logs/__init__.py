"""Log lines of trials."""
