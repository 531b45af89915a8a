"""Open the run in which batch inference works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from determined import core
from determined.pytorch.ranks import process_group


@contextmanager
def initialize_default_inference_context(
    distributed: core.DistributedContext | None = None,
) -> Iterator[core.Context]:
    """Open a run on the given ranks, or on those that the launcher started, and yield its core context."""
    with process_group.joined(distributed) as ranks, core.init(distributed=ranks) as core_context:
        yield core_context
