"""See whether a trial class can be imported: `python -m determined.exec.check_entrypoint module:Class`."""

from __future__ import annotations

import os
import sys

from determined.code_import import checking_entrypoint, import_class
from determined.errors import InvalidExperimentException


def main(arguments: list[str]) -> int:
    """Return 0 if it can be imported without starting a run; the interpreter shows what the import raises."""
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    try:
        with checking_entrypoint(arguments[0]):
            import_class(arguments[0])
    except SystemExit as error:
        # Also exit code 0: the class was not found.
        raise InvalidExperimentException(
            f"{arguments[0].partition(':')[0]} ends the program when it is imported (exit code {error.code}): put such "
            'lines under `if __name__ == "__main__":`'
        ) from None
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
