"""The registries of search methods, storage types and sinks: one line for each of them.

A line names the implementation, which is imported on use. So these modules import nothing, and a process that needs
only a property of a search method does not load it.
"""
