"""Experiments out of a store into files, and from files into another store."""
