"""The directory of a node's actor: killed actors' are deleted, those in use and of other machines are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from determined import paths
from determined.engines.ray.node.root import new_root
from determined.machine import this_machine

ACTOR = """
import sys
from determined.engines.ray.node.root import new_root
print(new_root("experiment"), flush=True)
sys.stdin.read()
"""


def test_only_directories_of_killed_actors_of_this_machine_are_deleted(data_home: Path) -> None:
    theirs = paths.data_dir() / "nodes" / "another-machine-0123" / "experiment-0"
    theirs.mkdir(parents=True)
    actor = subprocess.Popen([sys.executable, "-c", ACTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert actor.stdout is not None
    root = Path(actor.stdout.readline().strip())
    assert root.parent.name == this_machine()
    assert new_root("experiment") != root
    assert root.is_dir()
    actor.kill()
    actor.communicate()
    new_root("experiment")
    assert not root.exists()
    assert theirs.is_dir()


def test_actors_that_start_at_once_do_not_delete_each_other(data_home: Path) -> None:
    actors = [
        subprocess.Popen([sys.executable, "-c", ACTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    roots = [Path(actor.stdout.readline().strip()) for actor in actors if actor.stdout is not None]
    assert [root.is_dir() for root in roots] == [True] * 4
    for actor in actors:
        actor.communicate()
