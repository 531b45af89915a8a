"""Whether the store has changed since a page asked, and answers that are valid until it does."""
