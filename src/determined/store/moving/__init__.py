"""Export of experiments from a store into files, and import of such files into another store."""
