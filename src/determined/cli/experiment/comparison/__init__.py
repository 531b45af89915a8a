"""Compare experiments and trials side by side."""
