"""`from determined.horovod import hvd`: the functions of Horovod that programs call, on torch.distributed."""

from determined.horovod import hvd

__all__ = ["hvd"]
