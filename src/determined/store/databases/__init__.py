"""SQLite and PostgreSQL, the schema and its migrations."""
