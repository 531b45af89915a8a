"""The parts of the case of the web page: a store, the servers that are compared, and a browser."""
