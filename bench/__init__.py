"""Measure the overhead of the library over a bare PyTorch loop: `python -m bench`."""
