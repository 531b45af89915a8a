"""The program of a measuring process: `python program.py module:function JSON result-file`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    target, arguments, result = sys.argv[1:4]
    module, _, name = target.partition(":")
    value = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    Path(result).write_text(json.dumps(value))
