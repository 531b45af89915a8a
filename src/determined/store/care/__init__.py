"""Maintenance of a store: information about its contents, integrity checks, backups and vacuuming."""
