"""The launcher for Horovod scripts, kept for compatibility: Horovod is unmaintained, so torchrun starts the workers."""

from __future__ import annotations

import sys

from determined.launch import torch_distributed


def main(arguments: list[str]) -> int:
    """Start the workers with `torch_distributed` and return their exit code."""
    sys.stderr.write("determined.launch.horovod: horovod is not supported any more, using torch_distributed\n")
    return torch_distributed.main([argument for argument in arguments if argument != "--autohorovod"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
