"""`python -m determined.cli` is `det`."""

from determined.cli.main import main

main()
