"""Horovod's functions for PyTorch, implemented with torch.distributed: `from determined.horovod import hvd`."""

from determined.horovod import hvd

__all__ = ["hvd"]
