"""The tables of `det experiment` and `det trial`."""
