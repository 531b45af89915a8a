"""Launchers, which start one worker process for each slot."""
