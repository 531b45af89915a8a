"""How much the library costs beside a bare PyTorch loop: `python -m bench`."""
