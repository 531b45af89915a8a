"""The command `det experiment activate`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, with_json
from determined.cli.display.times import with_utc
from determined.cli.running.run_or_queue import Sharing, enqueue, run_here, with_engine, with_sharing
from determined.cli.selection.arguments import ID, complete_experiments_that
from determined.cli.store_access import opened_store

if TYPE_CHECKING:
    from determined.config.engine import EngineChoice


@click.command(cls=Command, action="activate {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments_that("can be activated"))
@click.option("--slots", type=click.IntRange(min=1), help="Number of slots to use (default: all).")
@click.option("-f", "--follow", is_flag=True, help="Also show the log of the first trial.")
@click.option("--max-trials", type=click.IntRange(min=1), help="Extend the search, even an ended one.")
@click.option("--detach", is_flag=True, help="Queue it; it runs in the background when slots are free.")
@click.option(
    "--granted-by",
    type=int,
    hidden=True,
    help="File descriptor of the connection to the queue, which assigns the slots.",
)
@with_engine
@with_sharing
@with_utc
@with_json
def activate(
    experiment_id: int,
    slots: int | None,
    follow: bool,
    max_trials: int | None,
    detach: bool,
    granted_by: int | None,
    engine: EngineChoice | None,
    sharing: Sharing,
    form: Form,
) -> None:
    """Resume a paused or interrupted experiment.

    It runs in the foreground: every trial resumes from its newest checkpoint, and the search repeats no decision. A
    queued experiment is removed from the queue.

    \b
    Example: det experiment activate 3
    """
    if granted_by is not None:
        sys.exit(_run_for_queue(experiment_id, slots, max_trials, granted_by))
    if not detach:
        sys.exit(
            run_here(
                experiment_id,
                new=False,
                slots=slots,
                follow=follow,
                form=form,
                engine=engine,
                max_trials=max_trials,
                sharing=sharing,
            )
        )
    if follow:
        raise click.UsageError(f"--follow and --detach exclude each other: det experiment logs {experiment_id} -f")
    with opened_store() as store:
        if engine is not None:
            # In the configuration, as `create` does, because the daemon starts the experiment later.
            store.upkeep.change_config(experiment_id, "resources", {"engine": str(engine)})
        enqueue(store, experiment_id, form, slots=slots, max_trials=max_trials)


def _run_for_queue(experiment_id: int, slots: int | None, max_trials: int | None, line: int) -> int:
    """Run an experiment as a child of the queue's daemon, which assigns slots through the socket `line`."""
    from determined.cli.streams import mask_output
    from determined.config.engine import parse_engine
    from determined.config.secrets.line_mask import line_mask
    from determined.config.stored import StoredConfig
    from determined.engines.granted import GrantedEngine
    from determined.experiment.files import ExperimentFiles, experiment_dir

    # The daemon always passes the number of slots.
    assert slots is not None
    os.set_inheritable(line, False)  # trials must not keep the connection open after this process ends
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
    directory = experiment_dir(experiment.key)
    choice = parse_engine(StoredConfig(experiment.config).resources.engine, "resources.engine")
    # The daemon writes this process's output to a file, so secrets in it are masked.
    mask_output(line_mask(os.environ, *([] if directory is None else ExperimentFiles(directory).configs())))
    if not choice.is_local:
        _pause_with_daemon(socket.socket(fileno=line))
        return run_here(
            experiment_id, new=False, engine=choice, in_queue=True, follow=False, form="table", max_trials=max_trials
        )
    with GrantedEngine(slots, socket.socket(fileno=line)) as engine:
        return run_here(
            experiment_id, new=False, engine=engine, in_queue=True, follow=False, form="table", max_trials=max_trials
        )


def _pause_with_daemon(connection: socket.socket) -> None:
    """Let this process pause its experiment when the daemon closes the connection, or exits.

    Grants that arrive are ignored: the slots of a cluster are not those that the daemon assigns.
    """

    def watch() -> None:
        while _received(connection):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="daemon connection", daemon=True).start()


def _received(connection: socket.socket) -> bool:
    """Wait for a message; return False if the connection is closed. A killed daemon resets it."""
    try:
        return bool(connection.recv(4096))
    except ConnectionError:
        return False
