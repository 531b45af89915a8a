"""The command `det queue serve`."""

from __future__ import annotations

import sys

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json_line, with_json

# A script that adds experiments one by one finds the daemon running in between.
_IDLE_SECONDS = 30.0


@click.command(cls=Command, action="serve the queue")
@click.option("--slots", type=click.IntRange(min=1), help="Number of slots to share (default: all).")
@click.option(
    "--idle",
    "idle_seconds",
    type=click.FloatRange(min=0),
    default=_IDLE_SECONDS,
    show_default=True,
    help="Exit after N seconds without an experiment.",
)
@click.option("--forever", is_flag=True, help="Do not exit when the queue is empty.")
@click.option(
    "--lock", type=int, hidden=True, help="File descriptor of the lock, taken by the process that starts this one."
)
@with_json
def serve(slots: int | None, idle_seconds: float, forever: bool, lock: int | None, form: Form) -> None:
    """Serve the queue in the foreground.

    Started automatically when needed. Use this command to run it under systemd. On SIGTERM all trials save a
    checkpoint, and the experiments stay in the queue.

    \b
    Example: det queue serve --forever
    """
    import os

    from determined.cli.display.safe_text import visible
    from determined.cli.streams import continuing_without_output
    from determined.engines.slots import find_slots
    from determined.errors import DeterminedError
    from determined.queue.daemon import Daemon
    from determined.queue.daemon_log import DaemonLog
    from determined.queue.files import QueueFiles, daemon_start_lock, take_daemon_lock
    from determined.queue.status import read_status
    from determined.store.open import checked_place

    place = checked_place()
    files = QueueFiles.of(place)
    if lock is None:
        with daemon_start_lock(files):
            lock = take_daemon_lock(files)
        # A daemon that was just started has not written its status yet.
        if lock is None:
            status = read_status(files)
            known = f" by process {status.pid}" if status is not None and status.pid else ""
            raise DeterminedError(f"the queue is already served{known}")
        log = None
    else:
        os.set_inheritable(lock, False)  # children must not hold the lock after this process ends
        # The daemon's output is its log file, which it shortens itself.
        log = DaemonLog(sys.stdout.fileno())

    def say(line: str) -> None:
        if log is not None:
            log.write(line)
            return
        with continuing_without_output():
            if form == "json":
                print_json_line({"text": line})
            else:
                click.echo(visible(line))

    idle = float("inf") if forever else idle_seconds
    found = find_slots(slots, os.environ)
    sys.exit(Daemon(place, files, lock, slots=found, idle_seconds=idle, say=say).run())
