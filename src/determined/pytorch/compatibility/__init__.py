"""Trials and internal names of older releases."""
