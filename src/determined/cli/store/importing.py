"""The commands `det store import` and `det experiment import`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.groups import Command
from determined.cli.output import Form, print_json, with_json
from determined.cli.render import Column, table
from determined.cli.store.progress import progress
from determined.cli.text import visible
from determined.plural import counted

if TYPE_CHECKING:
    from determined.experiment.moving.importing import ImportedExperiments
    from determined.store.moving.importing import Imported

_COLUMNS = [Column("Source ID"), Column("New ID"), Column("Name", long=True), Column("New")]


@click.command("import", cls=Command, action="import from {source}")
@click.argument("source", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--map",
    "maps",
    metavar="OLD=NEW",
    multiple=True,
    help="Directory of the exporting machine and where it is mounted here (repeatable).",
)
@click.option(
    "--storage",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for copied checkpoints and outputs (default: checkpoints/ in the data directory).",
)
@click.option("--skip-existing", is_flag=True, help="Leave out experiments of an archive that are already here.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Let this store manage files that were not copied. Only for exports of people you trust.",
)
@with_json
def import_(
    source: Path, maps: tuple[str, ...], storage: Path | None, skip_existing: bool, take_over: bool, form: Form
) -> None:
    """Import experiments from files.

    Reads an archive of `det experiment export`, whose checkpoints and code are copied to this machine and belong to
    this store, or rows of `det store export`, whose checkpoints and code stay where they are. All experiments are
    imported or none. In an empty store they keep their ids.

    \b
    Example: det experiment import spirals.tar
    Example: det store import all.jsonl --map /mnt/old=/mnt/new
    """
    from determined.experiment.moving.archive import is_archive
    from determined.store.moving.path_map import PathMap

    mapping = PathMap(maps)
    if is_archive(source):
        from determined.experiment.moving.importing import import_experiments

        with progress("files and rows") as tell, _cleaning_up_on_sigterm():
            archive = import_experiments(
                source, tell, storage=storage, mapping=mapping, take_over=take_over, skip_existing=skip_existing
            )
        _show(archive.imported, form, copied=_plain(archive))
        if form != "json":
            _tell(archive)
        return
    if storage is not None or skip_existing:
        raise click.UsageError("--storage and --skip-existing are for archives of det experiment export")
    from determined.store.moving.importing import import_store

    with progress("rows") as tell:
        done = import_store(
            source,
            tell,
            take_over=take_over,
            change=mapping.change,
            finish=lambda _: mapping.refuse_unused(str(source)),
        )
    _show(done, form, copied={})
    if form != "json" and not take_over and any(each.new for each in done.experiments):
        click.echo("Checkpoints and code were not copied. Use --take-over to let this store manage them.")


@contextmanager
def _cleaning_up_on_sigterm() -> Iterator[None]:
    """Exit through an exception on SIGTERM, so that unpacked files are removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _plain(archive: ImportedExperiments) -> dict[str, Any]:
    return {
        "storage": archive.storage,
        "checkpoints": archive.checkpoints,
        "outputs": archive.outputs,
        "without_code": list(archive.without_code),
        "masked": list(archive.masked),
    }


def _show(done: Imported, form: Form, copied: dict[str, Any]) -> None:
    """Print the imported experiments as a table or JSON."""
    if form == "json":
        experiments = [asdict(experiment) for experiment in done.experiments]
        print_json({"place": done.place, "experiments": experiments, "rows": done.rows, **copied})
        return
    rows = [(each.there, each.here, each.name, "yes" if each.new else "no") for each in done.experiments]
    click.echo(table(_COLUMNS, rows))
    new = sum(each.new for each in done.experiments)
    click.echo()
    imported = f"{new:,} of {counted(len(rows), 'experiment')}"
    click.echo(visible(f"Imported {imported} ({sum(done.rows.values()):,} rows) into {done.place}"))


def _tell(archive: ImportedExperiments) -> None:
    """Print what was copied, and what cannot be used here."""
    if archive.checkpoints or archive.outputs:
        outputs = f" and {counted(archive.outputs, 'output')}" if archive.outputs else ""
        click.echo(visible(f"Copied {counted(archive.checkpoints, 'checkpoint')}{outputs} to {archive.storage}"))
    if archive.without_code:
        ids = ", ".join(map(str, archive.without_code))
        click.echo(f"No code in the archive: experiment {ids} cannot be activated, continued or forked here.", err=True)
    if archive.masked:
        names = ", ".join(archive.masked)
        click.echo(visible(f"Secrets were not exported. Set again before running: {names}"), err=True)
