"""Processes that are killed while they report, and servers that are stopped: acknowledged reports are stored once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from determined.store.open import open_store
from tests.helpers import warm
from tests.helpers.postgres import PostgresServer
from tests.store.rows import begin, checkpoint

REPORTER = """
import sys
from determined.store.open import open_store
from determined.store.workers.writer import Writer
from tests.store.rows import begin, metric
place, rounds = sys.argv[1], int(sys.argv[2])
writer = Writer(lambda: open_store(place), patience=60)
attempt = writer.query(begin)
print(attempt.trial_id, flush=True)
for number in range(rounds):
    for step in range(50 * number, 50 * number + 50):
        writer.put(metric(attempt, "training", step, {"step": step}))
    writer.put(metric(attempt, "system", None, {"round": number}))
    writer.flush()
    print(number, flush=True)
writer.close()
"""


class Reporter:
    """A process that reports 50 steps and a sample in each round, and prints when a round is acknowledged."""

    def __init__(self, place: str, rounds: int) -> None:
        self.process = warm.Popen(
            [sys.executable, "-c", REPORTER, place, str(rounds)],
            env={**os.environ, "PYTHONPATH": os.getcwd()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.trial_id = 0
        self.acknowledged = -1

    def wait_for_round(self, number: int) -> None:
        assert self.process.stdout is not None
        while self.acknowledged < number:
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            self._heard(line)

    def end(self) -> None:
        output, self.errors = self.process.communicate(timeout=90)
        for line in output.splitlines():
            self._heard(line)

    def _heard(self, line: str) -> None:
        if not self.trial_id:
            self.trial_id = int(line)
        else:
            self.acknowledged = int(line)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_four_reporters_of_which_one_is_killed(place: str, seed: int, request: pytest.FixtureRequest) -> None:
    rounds, draw = 40, random.Random(seed)
    reporters = [Reporter(place, rounds) for _ in range(4)]
    server = request.getfixturevalue("postgres") if place.startswith("postgresql") else None
    reporters[0].wait_for_round(draw.randrange(1, 20))
    reporters[0].process.send_signal(signal.SIGKILL)
    if server is not None:
        stop_and_start(server)
    for reporter in reporters:
        reporter.end()
    assert reporters[0].process.returncode == -signal.SIGKILL
    store = open_store(place)
    for reporter in reporters:
        assert "locked" not in reporter.errors
        rows = store.metrics(reporter.trial_id)
        steps = [row.steps_completed for row in rows]
        assert len(steps) >= 50 * (reporter.acknowledged + 1)
        assert steps == list(range(len(steps)))
        assert all(row.metrics == {"step": row.steps_completed} for row in rows)
        samples = [row.metrics["round"] for row in store.samples(reporter.trial_id)]
        assert samples == list(range(len(samples)))
        assert len(samples) >= reporter.acknowledged + 1
    for reporter in reporters[1:]:
        assert reporter.process.returncode == 0, reporter.errors
        assert reporter.acknowledged == rounds - 1
    store.close()


def stop_and_start(server: PostgresServer) -> None:
    for _ in range(3):
        server.stop()
        server.start()


TRAIN = """
import os, signal, sys
from determined import core
from determined.store.open import open_store
from determined.core.supervision.run_identity import run_identity
from determined.user_code.program import this_program

LENGTH, KILLED_AT = 40, int(sys.argv[1])
store = open_store()
found = store.latest_checkpoints(run_identity(this_program(), None))
store.close()
with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
    checkpoint, done, total = None, 0, 0.0
    if found:
        checkpoint = found[0].checkpoint_id
        with context.checkpoint.restore_path(checkpoint) as path:
            done, total = int((path / "done").read_text()), float((path / "total").read_text())
    context.begin_attempt(checkpoint=checkpoint, steps_completed=done)
    for step in range(done + 1, LENGTH + 1):
        total += 1 / step
        context.train.report_training_metrics(step, {"total": total})
        if step % 4 == 0:
            context.train.report_validation_metrics(step, {"total": total, "by": os.getpid()})
        if step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        if step % 5 == 0:
            with context.checkpoint.store_path({"steps_completed": step}) as (path, uuid):
                (path / "done").write_text(str(step))
                (path / "total").write_text(repr(total))
"""


def test_a_run_that_is_killed_and_resumed_has_each_step_once(place: str, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    draw = random.Random(7)
    moments = [3, 5, *(draw.randrange(6, 40) for _ in range(4)), 0]
    for moment in sorted(moments[:-1]) + moments[-1:]:
        done = warm.run(
            [sys.executable, program, str(moment)],
            env={**os.environ, "DET_STORE": place},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == (-signal.SIGKILL if moment else 0), done.stderr
    store = open_store(place)
    *lost, run = store.runs()[::-1]
    # Runs that were killed before their first checkpoint start from the beginning, as new runs.
    assert all(store.checkpoints(other.trial_id) == [] for other in lost)
    assert run.attempt.number == len(moments) - len(lost)
    assert run.attempt.state == "completed"
    expected, total = [], 0.0
    for step in range(1, 41):
        total += 1 / step
        expected.append((step, total))
    rows = store.metrics(run.trial_id, "training")
    assert [(row.steps_completed, row.metrics["total"]) for row in rows] == expected
    validations = store.metrics(run.trial_id, "validation")
    assert [row.steps_completed for row in validations] == list(range(4, 41, 4))
    for row in [*rows, *validations]:
        began = [attempt for attempt in store.attempts(run.trial_id) if attempt.number == row.attempt]
        assert row.steps_completed is not None
        assert began[0].start_step < row.steps_completed
    states = [attempt.state for attempt in store.attempts(run.trial_id)]
    assert states == ["running"] * (len(states) - 1) + ["completed"]
    store.close()


RESUME = """
import sys
from determined.store.open import open_store
from tests.store.rows import alive, begin
sys.stdin.readline()
store = open_store(sys.argv[1])
print(begin(store, checkpoint="c", steps=5, process=alive()).trial_id, flush=True)
sys.stdin.readline()
"""


def test_of_four_that_resume_at_once_one_continues_the_trial(place: str) -> None:
    store = open_store(place)
    killed = begin(store)
    store.write([checkpoint(killed, 5, "c")])
    processes = [
        warm.Popen(
            [sys.executable, "-c", RESUME, place],
            env={**os.environ, "PYTHONPATH": os.getcwd()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    trials = [int(process.stdout.readline()) for process in processes if process.stdout is not None]
    for process in processes:
        process.communicate("end\n", timeout=30)
    assert trials.count(killed.trial_id) == 1
    assert len(set(trials)) == 4
    parents = {run.trial_id: run.parent_id for run in store.runs()}
    assert [parents[trial] for trial in sorted(trials)] == [None, *[killed.trial_id] * 3]
    store.close()
