"""Trains a trial class: `python -m determined.exec.harness module:Class [--config FILE]`."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from determined.config.reading.load import load_yaml
from determined.config.stored import StoredConfig
from determined.info import get_cluster_info
from determined.stack_dumps import print_stacks_on
from determined.user_code.imports import import_class

_LOG_FORMAT = "%(levelname)s: %(name)s: %(message)s"
_SECONDS_BETWEEN_STACK_DUMPS = 30  # often enough to see where a trial hangs, and seldom enough not to flood its log


def main(arguments: list[str]) -> int:
    """Import the class from the current directory and train it to the end."""
    parser = argparse.ArgumentParser(prog="determined.exec.harness", description="Train a trial class.")
    parser.add_argument("trial", metavar="module:Class", help="the trial class, found from this directory")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the experiment configuration, in YAML")
    parsed = parser.parse_args(arguments)
    config = _find_config(parser, parsed.config)
    debug = StoredConfig(config).debug
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, format=_LOG_FORMAT)
    if hasattr(signal, "SIGUSR1"):  # sent by the engine to get the stacks of a process that seems to hang
        print_stacks_on(signal.SIGUSR1, sys.stderr.fileno())
    if debug:
        faulthandler.dump_traceback_later(_SECONDS_BETWEEN_STACK_DUMPS, repeat=True)
    sys.path.insert(0, os.getcwd())
    trial_class = import_class(parsed.trial)
    # Imported late, because it loads torch.
    from determined.pytorch.run import exec_trial

    exec_trial.run(trial_class, config)
    return 0


def _find_config(parser: argparse.ArgumentParser, path: Path | None) -> dict[str, Any]:
    """Return the configuration of the experiment: that of the managed trial, or else the file."""
    info = get_cluster_info()
    if info is not None:
        return info.trial._config
    if path is None:
        parser.error("no experiment configuration: give one by --config FILE")
    return load_yaml(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
