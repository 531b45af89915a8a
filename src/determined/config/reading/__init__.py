"""Parse and check configuration files, with the fields of older releases."""
