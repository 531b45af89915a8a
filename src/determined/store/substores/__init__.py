"""The parts of `Store`, one module per subject with its queries. `Store` opens them when they are first used."""
