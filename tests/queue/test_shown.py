"""The status of the daemon is correct also while slots change hands."""

from __future__ import annotations

from determined.queue.files import QueueFiles
from determined.queue.status import last_status
from tests.cli.det_command import det_json
from tests.helpers.waiting import wait_until
from tests.queue.conftest import QueuedSearch
from tests.queue.test_commands import create
from tests.queue.test_held import served_while

# A runner whose trials take their time to save: it uses both slots, whatever it is granted. It writes down each grant.
TENACIOUS = """
import json, socket, sys
line = socket.socket(fileno=int(sys.argv[sys.argv.index("--granted-by") + 1])).makefile("rw")
for said in line:
    message = json.loads(said)
    line.write(json.dumps({"uses": [0, 1], "wants": 2, "seen": message["number"]}) + "\\n")
    line.flush()
    with open(GRANTS, "a") as grants:
        print(message["grant"], file=grants)
"""


def test_a_runner_that_still_saves_on_a_slot_holds_it(here: QueuedSearch) -> None:
    low, high = create(here), create(here)
    grants = here.home / "grants"
    here.run_by(low, f"GRANTS = {str(grants)!r}\n{TENACIOUS}")
    here.put_into_queue(low)
    files = QueueFiles.of(str(here.home / "determined" / "store.sqlite"))

    def disturb(said: list[str]) -> None:
        wait_until(lambda: last_status(files).running == {low: [0, 1]})
        here.put_into_queue(high, priority=1)
        wait_until(lambda: grants.exists() and grants.read_text().splitlines() == ["[0, 1]", "[]"])
        shown = {row["experiment_id"]: (row["state"], row["slots"]) for row in det_json("queue")}
        with here.opened() as store:
            store.queue.remove(low)
            store.queue.remove(high)
        here.kill(here.runners())
        assert shown == {low: ("ACTIVE", [0, 1]), high: ("ACTIVE", [])}

    served_while(here, disturb)
