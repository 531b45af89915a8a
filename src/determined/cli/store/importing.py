"""The commands `det store import` and `det experiment import`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import Column, table
from determined.cli.file_operations import cleaning_up_on_signals, progress
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.experiment.moving.archive_import import ImportedExperiments
    from determined.experiment.moving.missing_files import MissingFiles
    from determined.store.moving.importing import Imported

_COLUMNS = [Column("Source ID"), Column("New ID"), Column("Name", long=True), Column("New")]


@click.command("import", cls=Command, action="import the experiments")
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
    # By its content, not by its name: both commands accept both kinds.
    if is_archive(source):
        from determined.experiment.moving.archive_import import import_experiments

        with progress("files and rows") as report, cleaning_up_on_signals():
            archive = import_experiments(
                source, report, storage=storage, mapping=mapping, take_over=take_over, skip_existing=skip_existing
            )
        _show(archive.imported, form, copied=_plain(archive))
        if form != "json":
            _show_copied(archive)
            _show_missing(archive.missing, archive.imported)
        return
    if storage is not None or skip_existing:
        raise click.UsageError("--storage and --skip-existing are for archives of det experiment export")
    from determined.experiment.moving.missing_files import ImportedFiles
    from determined.store.moving.importing import import_store

    files = ImportedFiles()

    def change(table_name: str, row: dict[str, Any]) -> None:
        mapping.change(table_name, row)
        files.note(table_name, row)

    with progress("rows") as report, cleaning_up_on_signals():
        done = import_store(
            source,
            report,
            take_over=take_over,
            change=change,
            finish=lambda _: mapping.refuse_unused(str(source)),
        )
    missing = files.missing()
    _show(done, form, copied={"missing": [asdict(each) for each in missing]})
    if form == "json":
        return
    if not take_over and any(each.new for each in done.experiments):
        click.echo("Checkpoints and code were not copied. Use --take-over to let this store manage them.")
    _show_missing(missing, done)


def _plain(archive: ImportedExperiments) -> dict[str, Any]:
    """Return what was imported from an archive as JSON data."""
    return {
        "storage": archive.storage,
        "checkpoints": archive.checkpoints,
        "outputs": archive.outputs,
        "without_code": list(archive.without_code),
        "masked": list(archive.masked),
        "missing": [asdict(each) for each in archive.missing],
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
    click.echo(visible(f"Imported {imported} ({counted(sum(done.rows.values()), 'row')}) into {done.place}"))


def _show_copied(archive: ImportedExperiments) -> None:
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


def _show_missing(missing: Sequence[MissingFiles], done: Imported) -> None:
    """Say which files are not here, where they are expected, and what to do."""
    if not missing:
        return
    for each in missing:
        parts = [
            counted(number, noun)
            for number, noun in ((each.checkpoints, "checkpoint"), (each.outputs, "output"))
            if number
        ]
        click.echo(visible(f"Not on this machine: {' and '.join(parts)}, expected in {each.storage}"), err=True)
    there = " ".join(str(experiment.there) for experiment in done.experiments if experiment.new)
    here = " ".join(str(experiment.here) for experiment in done.experiments if experiment.new)
    click.echo(
        visible(
            f"To use them, delete the imported rows (det experiment delete {here} --yes) and import again: with --map "
            f"{missing[0].storage}=NEW if that directory is mounted as NEW here, or from an archive with the files "
            f"(det experiment export {there} --checkpoints all)."
        ),
        err=True,
    )
