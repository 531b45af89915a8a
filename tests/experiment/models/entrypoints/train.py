"""A script of the Core API, with or without a launcher."""

from __future__ import annotations

import argparse
import os
import sys

import told  # type: ignore[import-not-found]  # beside this file, which is the first place that Python looks at

from determined import core

parser = argparse.ArgumentParser()
parser.add_argument("--x", required=True)
x = parser.parse_args().x

told.write_down()
launched = "USE_TORCH_DISTRIBUTED" in os.environ
distributed = core.DistributedContext.from_torch_distributed() if launched else None
with core.init(distributed=distributed) as context:
    ranks = context.distributed.allgather(context.distributed.rank)
    assert ranks == list(range(context.distributed.size))
    if context.distributed.rank == 0:
        context.train.report_validation_metrics(1, {"validation_loss": 0.5, "x": x, "ranks": len(ranks)})
        sys.stdout.write(f"x is {x!r}\n")
