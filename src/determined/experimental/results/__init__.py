"""What the SDK returns: filtered and sorted lists, DataFrames, and tables in notebooks."""
