"""What the page changes: requests, what is possible now, and what carries them out."""
