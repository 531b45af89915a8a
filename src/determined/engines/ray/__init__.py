"""The engine that runs jobs on the nodes of a Ray cluster. Only the bridge and the survey run processes with ray."""
