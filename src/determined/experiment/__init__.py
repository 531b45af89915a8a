"""The experiment runner: creates experiments, runs their trials to the end, and manages their files."""
