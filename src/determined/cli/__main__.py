"""Run `det` as `python -m determined.cli`."""

from determined.cli.main import main

main()
