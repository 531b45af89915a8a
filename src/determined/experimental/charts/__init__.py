"""Curves of trials in notebooks: which trials, their data, and the frame that draws them."""
