"""Loaders, the sharding of batches over ranks, and the position in the data."""
