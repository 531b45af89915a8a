"""Curves of metrics for charts: read from the store, downsampled without losing spikes, summarized, and cached."""
