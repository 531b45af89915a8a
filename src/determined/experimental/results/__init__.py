"""Results of the SDK: filtered and sorted lists, DataFrames, and tables in notebooks."""
