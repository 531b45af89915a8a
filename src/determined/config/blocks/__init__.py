"""One model for each block of an experiment configuration."""
