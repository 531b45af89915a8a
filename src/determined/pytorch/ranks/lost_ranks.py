"""Name the missing rank when one of torch's collectives fails, for example the one in backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed

from determined.core import DistributedContext
from determined.errors import DistributedError

# Parts of messages of gloo and NCCL: torch raises a plain RuntimeError for most transport failures.
_WORDS_OF_TRANSPORTS = ("/gloo/", "NCCL", "Connection closed by peer")


@contextmanager
def named(distributed: DistributedContext) -> Iterator[None]:
    """Turn an error of torch's transport inside the block into a DistributedError that names the rank and its host."""
    try:
        yield
    except RuntimeError as error:
        if distributed.size > 1 and _is_of_the_transport(error):
            raise DistributedError(distributed.describe_failure("a collective of training", error)) from error
        raise


def _is_of_the_transport(error: RuntimeError) -> bool:
    """Return whether an error comes from the communication between ranks."""
    return isinstance(error, torch.distributed.DistError) or any(word in str(error) for word in _WORDS_OF_TRANSPORTS)
