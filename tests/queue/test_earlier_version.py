"""A daemon of an earlier version is recognised by its files, and replaced by one of this version when it exits."""

from __future__ import annotations

import subprocess
import sys

from determined.queue.files import QueueFiles
from tests.cli.det_command import det_ok
from tests.queue.conftest import QueuedSearch
from tests.queue.test_commands import create

# The texts of the version before the modules were renamed, written out, because a change of one of them would start a
# second daemon beside a running one. After a line on its standard input it begins to shut down, after the next one it
# exits.
EARLIER = """
import fcntl, json, os, sys
directory, name = sys.argv[1:]
os.makedirs(directory, mode=0o700, exist_ok=True)
with open(f"{directory}/{name}.door", "a") as door:
    fcntl.flock(door, fcntl.LOCK_EX)
    lock = open(f"{directory}/{name}.lock", "a")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
status = {"pid": os.getpid(), "since": 0.0, "slots": 2, "running": {}, "leaving": False}
for leaving in (False, True):
    with open(f"{directory}/{name}.new", "w") as file:
        json.dump({**status, "leaving": leaving}, file)
    os.replace(f"{directory}/{name}.new", f"{directory}/{name}.json")
    print("ready", flush=True)
    sys.stdin.readline()
os.remove(f"{directory}/{name}.json")
"""


def test_it_is_recognised_and_replaced(here: QueuedSearch) -> None:
    here.config = {**here.config, "resources": {"slots_per_trial": 3}}  # this version removes it from the queue at once
    experiment = create(here, "--slots", "3")
    files = QueueFiles.of(str(here.home / "determined" / "store.sqlite"))
    command = [sys.executable, "-IS", "-c", EARLIER, str(files.directory), files.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as earlier:
        assert earlier.stdin is not None
        assert earlier.stdout is not None
        assert earlier.stdout.readline() == "ready\n"

        assert "Queued." in det_ok("experiment", "activate", str(experiment), "--detach")
        assert here.daemons() == [], "the earlier one serves the queue"
        assert det_ok("queue", "resume") == "The queue is already being served: 1 experiment.\n"

        earlier.stdin.write("\n")
        earlier.stdin.flush()
        assert earlier.stdout.readline() == "ready\n"
        assert "The queue daemon is shutting down" in det_ok("queue")

        earlier.stdin.write("\n")
    assert det_ok("queue", "resume") == "Resumed the queue with 1 experiment.\n"
    here.wait_for(lambda store: store.queue.find(experiment) is None)
    assert here.state(experiment) == "PAUSED"
