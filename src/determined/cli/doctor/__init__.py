"""`det doctor`: what works here, what is missing, and how to get it. One file for each thing that is looked at."""
