"""The command `det store backup`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size
from determined.cli.file_operations import progress
from determined.errors import StoreError


@click.command(cls=Command, action="back up the store")
@click.argument("file", type=click.Path(path_type=Path))
@with_json
def backup(file: Path, form: Form) -> None:
    """Back up the store into a file.

    Runs may continue meanwhile: the backup is the state at its start. It is checked, and exists only if it is complete.
    Checkpoints and code are not included.

    \b
    Example: det store backup monday.sqlite
    """
    from determined.store.databases import location as places
    from determined.store.databases.migrate import version_of
    from determined.store.maintenance.sqlite_file import back_up
    from determined.store.open import checked_place, open_database

    place = checked_place()
    if places.is_postgres(place):
        raise StoreError(
            # pg_dump knows how to copy a server consistently; this library does not.
            f"the store is on a PostgreSQL server. Back it up with: pg_dump --schema=determined --format=custom "
            f"--file={file} {places.shown(place)}; or export it: det store export"
        )
    with closing(open_database(place)) as database:
        version_of(database)  # raises if it is not a store of this library; an older version is copied as it is
    with progress("pages") as report:
        count = back_up(Path(place), file, report)
    if form == "json":
        print_json({"place": place, "file": str(file.absolute()), "bytes": count})
    else:
        click.echo(visible(f"Backed up {place} to {file} ({size(count)})"))
        click.echo(f"To read it: DET_STORE={visible(str(file))} det experiment list")
