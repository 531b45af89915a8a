"""See whether a trial class can be imported: `python -m determined.exec.check_entrypoint module:Class`."""

from __future__ import annotations

import os
import sys

from determined.code_import import import_class


def main(arguments: list[str]) -> int:
    """0 if it can; what its import raises is left to the interpreter to show."""
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    import_class(arguments[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
