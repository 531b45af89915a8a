"""The storage types, one file each."""
