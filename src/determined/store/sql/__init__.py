"""The queries of the store, the same for SQLite and PostgreSQL."""
