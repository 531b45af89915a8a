"""The launcher for DeepSpeed scripts, kept for compatibility: torchrun starts the workers."""

from __future__ import annotations

import sys

from determined.launch import torch_distributed


def main(arguments: list[str]) -> int:
    """Start the workers with `torch_distributed` and return their exit code."""
    sys.stderr.write("determined.launch.deepspeed: the workers are started by torch_distributed\n")
    return torch_distributed.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
