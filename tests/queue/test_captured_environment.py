"""Trials get the variables of the process that queued them, whichever process started the daemon."""

from __future__ import annotations

import subprocess

from tests.helpers.searches import DET
from tests.queue.conftest import QueuedSearch


def test_variables_of_the_caller_and_secrets_of_the_daemon(here: QueuedSearch) -> None:
    daemon = subprocess.Popen(
        [*DET, "queue", "serve", "--idle", "60"],
        env={**here.env(), "COLOUR": "red", "MY_TOKEN": "daemon"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    daemon.stdout.readline()  # it serves
    caller = {**here.env(), "COLOUR": "green", "SHAPE": "round", "MY_TOKEN": "the caller's", "DET_SLOTS": "7"}
    caller |= dict.fromkeys(["PGPASSWORD", "MYSQL_PWD", "OPENAI_APIKEY", "TOKEN_2", "GPG_PASSPHRASE"], "the caller's")
    subprocess.run(
        [*DET, "run", "--detach", "sh", "-c", 'echo "$COLOUR, $SHAPE, $MY_TOKEN"'],
        env=caller,
        cwd=here.home,
        check=True,
        capture_output=True,
        timeout=60,
    )
    here.wait(1)
    with here.opened() as store:
        (trial,) = store.experiments.trials(1)
        assert [line.text for line in store.logs(trial.id)] == ["green, round, daemon"]  # too short to be masked
    kept = [path for path in here.home.rglob("*") if path.is_file() and b"the caller's" in path.read_bytes()]
    assert kept == []
    (surroundings,) = here.home.glob("determined/experiments/*/surroundings.json")
    assert surroundings.stat().st_mode & 0o777 == 0o600
    daemon.terminate()
    assert daemon.wait(30) == 143
    daemon.stdout.close()
