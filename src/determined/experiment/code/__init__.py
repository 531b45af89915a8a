"""The copy of an experiment's code, and its startup hook."""
