"""The command `det trial support-bundle`."""

from __future__ import annotations

import os
import tarfile
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size
from determined.cli.file_operations import refuse_existing
from determined.cli.selection.arguments import ID, complete_trials
from determined.cli.store_access import opened_store
from determined.sentences import counted


@click.command("support-bundle", cls=Command, action="create a support bundle of {trial_id:trial}")
@click.argument("trial_id", metavar="ID", type=ID, shell_complete=complete_trials)
@click.option(
    "-o",
    "--output",
    "--output-dir",
    "output",
    type=click.Path(path_type=Path),
    help="File to write, or a directory for it.",
)
@with_json
def support_bundle(trial_id: int, output: Path | None, form: Form) -> None:
    """Create a support bundle.

    A gzipped tar file with logs, metrics, configuration, states and versions of a trial, without code and weights.
    Known secrets are hidden; review the output of your program before sharing it. Existing files are not overwritten.

    \b
    Example: det trial support-bundle 7 -o trouble.tar.gz
    """
    from determined.cli.trial.bundle_contents import bundle_contents

    name = f"support-bundle-trial-{trial_id}"
    target = Path() if output is None else output
    if target.is_dir():
        target = target / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz"
    refuse_existing(target)
    with opened_store() as store:
        trial = store.experiments.trial(trial_id)
        sizes = _write(target, name, bundle_contents(store, trial, store.experiments.get(trial.experiment_id)))
    if form == "json":
        print_json({"trial_id": trial_id, "path": str(target), "size": target.stat().st_size, "files": sizes})
        return
    click.echo(visible(f"Wrote {target}: {counted(len(sizes), 'file')}, {size(target.stat().st_size)}"))
    click.echo("Review it before sharing: your program's output may contain secrets.")


def _write(target: Path, directory: str, files: Iterable[tuple[str, Iterable[str]]]) -> dict[str, int]:
    """Write an archive, which appears complete or not at all, and return the size of each file in it."""
    sizes = {}
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        # Private: the bundle may contain secrets that were not recognised.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as output, tarfile.open(fileobj=output, mode="w:gz") as archive:
            for name, pieces in files:
                with tempfile.TemporaryFile(dir=target.parent) as content:  # a log may be larger than memory
                    for piece in pieces:
                        content.write(piece.encode("utf-8", "backslashreplace"))
                    member = tarfile.TarInfo(f"{directory}/{name}")
                    member.size = sizes[name] = content.tell()
                    member.mode, member.mtime = 0o600, int(time.time())
                    content.seek(0)
                    archive.addfile(member, content)
        # The bundle gets its name only when it is complete.
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return sizes
