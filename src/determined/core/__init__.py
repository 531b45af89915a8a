"""One worker's view of its run."""

from determined.core.distributed import DistributedContext, DummyDistributedContext

__all__ = ["DistributedContext", "DummyDistributedContext"]
