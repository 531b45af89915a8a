"""Metrics on their way from a batch to a report."""
