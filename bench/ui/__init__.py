"""What the case of the web page needs: a store, the servers that are compared, and a browser."""
