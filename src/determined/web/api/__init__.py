"""The routes below `/api/`: one file for each resource, with the types of its answers."""
