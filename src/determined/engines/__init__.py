"""Start, watch and end the processes of a trial."""
