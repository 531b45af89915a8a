"""The tables that `det experiment` shows."""
