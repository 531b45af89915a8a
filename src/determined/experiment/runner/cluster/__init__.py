"""Running an experiment on a cluster: its engine, and what other machines need to run its trials."""
