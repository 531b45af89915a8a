"""Programs that other processes start with `python -m`: training of a trial class, and the check of an entrypoint."""
