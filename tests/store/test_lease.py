"""One runner at a time: real processes acquire the same experiment, are killed, suspended and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from determined.errors import ExperimentHeld, LeaseLost
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.experiment_records import JournalEntry
from determined.store.open import open_store
from determined.store.process import Process, this_process
from determined.store.store import Store
from determined.store.substores.experiments import Experiments
from tests.helpers.postgres import PostgresServer
from tests.store.experiments import held_experiment, new_experiment, new_trial
from tests.store.rows import GONE

HOLDER = """
import sys, threading
from determined.errors import ExperimentHeld, LeaseLost
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.open import open_store
from determined.store.process import this_process
place, experiment_id = sys.argv[1], int(sys.argv[2])
store = open_store(place)
print("ready", flush=True)
sys.stdin.readline()
try:
    lease = store.experiments.acquire(experiment_id, this_process())
except ExperimentHeld as error:
    print("held:", error, flush=True)
    sys.exit(3)
print("token", lease.token, flush=True)
asked, end = threading.Event(), []
def listen():
    end.append(sys.stdin.readline())
    asked.set()
threading.Thread(target=listen, daemon=True).start()
try:
    while not asked.wait(0.05):
        store.experiments.heartbeat(lease)
    if end == ["release\\n"]:
        store.experiments.release(lease)
    store.experiments.commit(lease, Change(experiment=ExperimentChange(reason="written by a late one")))
    print("wrote", flush=True)
except LeaseLost as error:
    print("lost:", error, flush=True)
"""


TWENTY = """
import os, sys, time
from determined.errors import ExperimentHeld
from determined.store.open import open_store
from determined.store.process import this_process
place, experiment_id = sys.argv[1], int(sys.argv[2])
open_store(place).close()  # the driver is imported here, once
def say(text):
    os.write(1, f"{text}\\n".encode())  # a line as one piece
parent, (go, started) = os.getpid(), os.pipe()
for _ in range(20):
    if os.fork() == 0:
        os.close(started)
        store = open_store(place)
        say("ready")
        os.read(go, 1)
        try:
            lease = store.experiments.acquire(experiment_id, this_process())
        except ExperimentHeld as error:
            say(error)
            os._exit(0)
        say(f"process {os.getpid()} has it")
        while os.getppid() == parent:
            store.experiments.heartbeat(lease)
            time.sleep(0.05)
        os._exit(0)
sys.stdin.readline()
os.close(started)
sys.stdin.readline()
"""


class Clock:
    """Time that passes only while a process waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time(self) -> float:
        return 1e9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which this process watches heartbeats; other processes have the real one."""
    clock = Clock()
    monkeypatch.setattr("determined.store.sql.leases.time", clock)
    return clock


class Runner:
    """A process that acquires an experiment when it is instructed to, and sends heartbeats."""

    def __init__(self, place: str, experiment_id: int, program: str = HOLDER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, place, str(experiment_id)],
            env={**os.environ, "PYTHONPATH": os.getcwd()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def acquire(self) -> str:
        assert self.read_line() == "ready"
        self.send("go")
        return self.read_line()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@pytest.fixture
def runners() -> Iterator[list[Runner]]:
    started: list[Runner] = []
    yield started
    for runner in started:
        runner.process.kill()
        runner.process.communicate(timeout=30)


def test_of_twenty_that_start_at_once_one_works(store: Store, place: str, runners: list[Runner]) -> None:
    experiment_id = store.experiments.create(new_experiment())
    twenty = Runner(place, experiment_id, TWENTY)
    runners.append(twenty)
    assert [twenty.read_line() for _ in range(20)] == ["ready"] * 20
    twenty.send("go")
    answers = [twenty.read_line() for _ in range(20)]
    holder = store.experiments.get(experiment_id).holder
    assert holder is not None
    assert holder.token == 1
    answers.remove(f"process {holder.process.pid} has it")
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.since))
    named = f"process {holder.process.pid} on host {this_process().host} since {since}"
    assert answers == [f"experiment {experiment_id} is being run by {named}"] * 19


def test_a_killed_holder_is_followed_at_once(store: Store, place: str, runners: list[Runner]) -> None:
    experiment_id = store.experiments.create(new_experiment())
    runners.append(Runner(place, experiment_id))
    assert runners[0].acquire() == "token 1"
    with pytest.raises(ExperimentHeld):
        store.experiments.acquire(experiment_id, this_process())
    runners[0].signal(signal.SIGKILL)
    runners[0].process.wait(30)
    # A silent holder would be watched until the test times out.
    assert store.experiments.acquire(experiment_id, this_process(), watch_seconds=600).token == 2


def test_a_stopped_holder_is_followed_and_can_write_nothing_when_it_wakes(
    store: Store, place: str, runners: list[Runner], clock: Clock
) -> None:
    experiment_id = store.experiments.create(new_experiment())
    runners.append(Runner(place, experiment_id))
    assert runners[0].acquire() == "token 1"
    while True:  # stopped in a transaction, it would block others on SQLite
        runners[0].signal(signal.SIGSTOP)
        if can_be_written(store, experiment_id):
            break
        runners[0].signal(signal.SIGCONT)
    lease = store.experiments.acquire(experiment_id, this_process(), watch_seconds=0.5)
    assert lease.token == 2
    assert clock.now >= 0.5
    runners[0].signal(signal.SIGCONT)
    assert runners[0].read_line().startswith(f"lost: experiment {experiment_id} was taken over by another process")
    found = store.experiments.get(experiment_id)
    assert found.reason is None
    assert found.holder is not None
    assert found.holder.process == this_process()


def can_be_written(store: Store, experiment_id: int) -> bool:
    database = store._database
    if place_is_sqlite(store):
        database.execute("PRAGMA busy_timeout = 100")
    else:
        database.execute("SET lock_timeout = 100")
    try:
        with database.transaction():
            database.read_locked("SELECT token FROM leases WHERE experiment_id = ?", [experiment_id])
    except Exception:  # noqa: BLE001  (each database has its own)
        return False
    return True


def place_is_sqlite(store: Store) -> bool:
    return "://" not in store.place


STUCK = """
import sys
from determined.store.databases import postgres
from determined.store.open import open_store
from determined.store.process import this_process
from determined.store.workers.writer import Writer
postgres._LONGEST_PAUSE_IN_TRANSACTION = "300ms"
place, experiment_id = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
writer = Writer(lambda: open_store(place), patience=30)
lease = writer.query(lambda store: store.experiments.acquire(experiment_id, this_process()))
sys.stdin.readline()
def stop_in_the_middle(store):
    with store._database.transaction():
        store._database.read_locked("SELECT token FROM leases")
        print("locked", flush=True)
        sys.stdin.readline()
        store._database.execute("UPDATE leases SET token = 99")
writer.query(stop_in_the_middle)
"""


def test_one_that_is_stopped_in_a_transaction_keeps_no_lock(postgres: PostgresServer, runners: list[Runner]) -> None:
    place = postgres.new_database()
    store = open_store(place)
    experiment_id = store.experiments.create(new_experiment())
    runners.append(Runner(place, experiment_id, STUCK))
    assert runners[0].acquire() == "locked"
    assert store.experiments.acquire(experiment_id, this_process(), watch_seconds=0).token == 2
    runners[0].send("continue")
    assert runners[0].read_line() == "locked"  # it is tried again, from the beginning
    assert store.experiments.get(experiment_id).holder is not None
    store.close()


def test_a_holder_that_ends_well_is_followed_at_once(store: Store, place: str, runners: list[Runner]) -> None:
    experiment_id = store.experiments.create(new_experiment())
    runners.append(Runner(place, experiment_id))
    assert runners[0].acquire() == "token 1"
    runners[0].send("release")
    assert runners[0].read_line() == "wrote"  # no process has taken it over
    assert store.experiments.get(experiment_id).holder is None
    assert store.experiments.acquire(experiment_id, this_process()).token == 2


def test_a_silent_holder_on_another_machine_is_followed_after_a_while(store: Store, clock: Clock) -> None:
    held = held_experiment(store, GONE)
    lease = store.experiments.acquire(held.experiment_id, this_process(), watch_seconds=0.3)
    assert clock.now >= 0.3
    assert lease.token == held.token + 1
    for forbidden in (
        lambda: store.experiments.heartbeat(held),
        lambda: store.experiments.commit(held, Change(experiment=ExperimentChange("ERROR"))),
    ):
        with pytest.raises(LeaseLost, match=f"experiment {held.experiment_id} was taken over"):
            forbidden()
    store.experiments.release(held)  # it lost the lease
    found = store.experiments.get(held.experiment_id)
    assert found.state == "ACTIVE"
    assert found.holder is not None
    assert (found.holder.process, found.holder.token) == (this_process(), lease.token)


def test_a_process_that_asks_again_gets_a_newer_lease(store: Store) -> None:
    """Its first answer was lost, or the lease is its own: otherwise it would wait for itself."""
    first = held_experiment(store, this_process())
    second = store.experiments.acquire(first.experiment_id, this_process())
    assert second.token == first.token + 1
    with pytest.raises(LeaseLost):
        store.experiments.heartbeat(first)


def test_a_dead_process_with_the_number_of_a_living_one(store: Store) -> None:
    mine = this_process()
    held = held_experiment(store, Process(mine.host, mine.pid, "before the machine was restarted"))
    assert store.experiments.acquire(held.experiment_id, mine).token == 2


def test_what_a_lost_lease_wrote_is_nothing_at_all(store: Store) -> None:
    held = held_experiment(store, this_process())
    store.experiments.acquire(held.experiment_id, this_process())
    change = Change(
        journal=(JournalEntry(1, {}, []),),
        snapshot={},
        new_trials=(new_trial(0),),
        experiment=ExperimentChange("COMPLETED"),
    )
    with pytest.raises(LeaseLost):
        store.experiments.commit(held, change)
    assert store.experiments.journal(held.experiment_id) == []
    assert store.experiments.snapshot(held.experiment_id) is None
    assert store.experiments.trials(held.experiment_id) == []
    assert store.experiments.get(held.experiment_id).state == "ACTIVE"


class Meanwhile:
    """Actions of other processes between two polls of the process that acquires: after the first, the second, ..."""

    def __init__(self, store: Store, *deeds: Callable[[], object]) -> None:
        self._database: Any = store._database
        self._deeds = list(deeds)

    def __enter__(self) -> None:
        execute = self._database.execute

        def look(statement: str, values: Sequence[Any] = ()) -> Any:
            found = execute(statement, values)
            if statement.startswith("SELECT l.token") and self._deeds:
                self._deeds.pop(0)()
            return found

        self._database.execute = look

    def __exit__(self, *_: object) -> None:
        del self._database.execute
        assert not self._deeds


@pytest.fixture
def others(place: str, store: Store) -> Iterator[Experiments]:
    """The same experiments as other processes see them."""
    opened = open_store(place)
    yield opened.experiments
    opened.close()


def nothing() -> None:
    pass


def test_another_one_was_faster(store: Store, others: Experiments, clock: Clock) -> None:
    experiment_id = store.experiments.create(new_experiment())
    with Meanwhile(store, lambda: others.acquire(experiment_id, GONE)):
        lease = store.experiments.acquire(experiment_id, this_process(), watch_seconds=0.3)
    assert lease.token == 2
    assert clock.now >= 0.3  # it was free at the first poll, and is now watched like any other


def test_a_heartbeat_at_the_last_moment(store: Store, others: Experiments) -> None:
    held = held_experiment(store, GONE)
    with Meanwhile(store, lambda: others.heartbeat(held)), pytest.raises(ExperimentHeld, match="another-host"):
        store.experiments.acquire(held.experiment_id, this_process(), watch_seconds=0)
    others.heartbeat(held)


def test_one_that_took_over_and_died_is_not_taken_for_alive(store: Store, others: Experiments) -> None:
    held = held_experiment(store, GONE)
    dead = Process(this_process().host, this_process().pid, "another start")
    with Meanwhile(store, lambda: others.acquire(held.experiment_id, dead, watch_seconds=0)):
        assert store.experiments.acquire(held.experiment_id, this_process()).token == 3


def test_a_commit_is_a_heartbeat(store: Store, others: Experiments) -> None:
    held = held_experiment(store, GONE)
    with Meanwhile(store, lambda: others.commit(held, Change())), pytest.raises(ExperimentHeld):
        store.experiments.acquire(held.experiment_id, this_process())


def test_each_holder_is_watched_for_the_full_time(store: Store, others: Experiments, clock: Clock) -> None:
    """The silent holder releases the lease at last, and another process gets it: its time starts anew."""
    held = held_experiment(store, GONE)

    def release_late() -> None:
        clock.sleep(19.0)
        others.release(held)

    with Meanwhile(store, nothing, release_late, lambda: others.acquire(held.experiment_id, GONE)):
        lease = store.experiments.acquire(held.experiment_id, this_process(), watch_seconds=20.0)
    assert lease.token == 3
    assert 39.0 < clock.now < 40.0


def test_wall_clocks_are_not_used(store: Store, others: Experiments, monkeypatch: pytest.MonkeyPatch) -> None:
    """One clock is a day slow, another one a day fast: token and heartbeat do not depend on them."""
    held = held_experiment(store, GONE)
    for seconds in (-86400.0, 86400.0):
        now = time.time() + seconds
        with monkeypatch.context() as patch:
            patch.setattr("determined.store.sql.leases.time.time", lambda now=now: now)
            held = store.experiments.acquire(held.experiment_id, GONE)
            with (
                Meanwhile(store, lambda held=held: others.heartbeat(held)),  # type: ignore[misc]
                pytest.raises(ExperimentHeld),
            ):
                store.experiments.acquire(held.experiment_id, this_process())
    assert held.token == 3
