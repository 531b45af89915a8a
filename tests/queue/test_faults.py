"""What goes wrong with one experiment, or with the disk, while the daemon is there for all."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from determined.experiment.files import ExperimentFiles
from determined.queue import serving
from tests.queue.conftest import QueuedSearch
from tests.queue.test_commands import create
from tests.queue.test_held import OtherRunner, served_while, wait_until


def test_what_cannot_be_run_is_given_up_and_the_others_go_on(
    here: QueuedSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_SECONDS_BETWEEN_LOOKS", 0.1)
    gone, unreadable, odd, last = (create(here) for _ in range(4))
    with here.opened() as store:
        files = {
            number: ExperimentFiles.for_key(store.experiments.get(number).key) for number in (gone, unreadable, last)
        }
    for number in (unreadable, last):
        files[number].surroundings.write_text('{"python": ')
    for number in (gone, unreadable, odd, last):
        here.put_into_queue(number)
    with sqlite3.connect(here.home / "determined" / "store.sqlite") as connection:
        connection.execute("UPDATE experiments SET config = '{}' WHERE id = ?", [odd])
    connection.close()
    other = OtherRunner(here, last)
    other.take()

    def disturb(said: list[str]) -> None:
        wait_until(lambda: any("still runs it" in line for line in said))  # all of them are known by now
        shutil.rmtree(files[gone].root)
        other.say("leave")

    said = "\n".join(served_while(here, disturb))
    other.end()
    for number, reason in (
        (gone, "its files are not here any more"),
        (odd, "it cannot be run: KeyError"),
        (unreadable, "it cannot be run: JSONDecodeError"),
        (last, "it cannot be run: JSONDecodeError"),
    ):
        assert f"experiment {number}: taken out of the queue: {reason}" in said
        assert here.state(number) == "PAUSED"
