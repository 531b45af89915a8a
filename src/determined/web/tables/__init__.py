"""Rows of tables, statistics of metrics and requests in progress, as the page shows them."""
