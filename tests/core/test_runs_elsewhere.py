"""Standalone runs on another machine that shares the store: here a process that sees another host name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from determined import core
from determined.errors import CheckpointInUse, InvalidExperimentException, StoreError
from determined.experiment.deletion import delete_checkpoints, delete_tensorboard_files
from determined.experimental import core_v2
from determined.store.records import Attempt
from determined.store.rows import HeartbeatRow
from tests.helpers.records import opened
from tests.helpers.system import impossible, missing
from tests.helpers.waiting import wait_until

# Saves, says so, and trains on until it is killed. Its heartbeats are quicker than those of users.
PROGRAM = """
import sys, time
from determined.store import heartbeats
heartbeats.SECONDS_BETWEEN_HEARTBEATS = 0.1
from determined.experimental import core_v2
core_v2.init(config=core_v2.Config(external_experiment_id="sweep", external_trial_id="a"))
core_v2.train.report_training_metrics(1, {"loss": 1.0})
with core_v2.checkpoint.store_path({"steps_completed": 1}) as (_, uuid):
    pass
core_v2.train.report_training_metrics(2, {"loss": 1.0})
print(uuid, flush=True)
while True:
    time.sleep(1)
"""
NAMES = core_v2.Config(external_experiment_id="sweep", external_trial_id="a")


@contextmanager
def running_elsewhere() -> Iterator[str]:
    """A run on another machine, until the end of the block: then it is lost. Yields its newest checkpoint."""
    if shutil.which("unshare") is None:
        missing("unshare", "util-linux")
    if os.geteuid() != 0:
        impossible("only root can give a process another host name")
    command = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere; exec "$0" "$@"', sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def newest() -> Attempt:
    with opened() as store:
        return store.attempts(1)[-1]


def outdate() -> None:
    """Let almost all of the time pass after which a run without a heartbeat counts as lost."""
    with opened() as store:
        store.write([HeartbeatRow(1, newest().number, time.time() - 118)])


def test_what_is_running_elsewhere_is_left_alone() -> None:
    with running_elsewhere() as uuid:
        first = newest()
        assert first.process.host == "elsewhere"
        wait_until(lambda: newest().heartbeat != first.heartbeat)
        with opened() as store:
            with pytest.raises(CheckpointInUse, match=f"checkpoint {uuid} is the newest of trial 1"):
                delete_checkpoints(store, [uuid])
            with pytest.raises(
                InvalidExperimentException, match=rf"running \(process {first.process.pid} on elsewhere"
            ):
                delete_tensorboard_files(store, 1)
        with pytest.raises(StoreError, match=f"is running in process {first.process.pid} on elsewhere"):
            core_v2.init(config=NAMES)
    outdate()
    with opened() as store:
        wait_until(lambda: time.time() - (newest().heartbeat or 0) > 120)
        delete_checkpoints(store, [uuid])


def test_a_lost_run_is_waited_for_and_then_continued() -> None:
    with running_elsewhere() as uuid:
        pass
    outdate()
    core_v2.init(config=NAMES)
    try:
        assert core_v2.info.latest_checkpoint == uuid
        assert newest().number == 2
    finally:
        core_v2.close()


def test_the_last_run_is_not_one_that_runs_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_RUN_NAME", "mine")
    with running_elsewhere() as uuid, core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        assert context._supervisor.checkpoints.of_the_last_run() == []
    outdate()
    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        assert context._supervisor.checkpoints.of_the_last_run() == [uuid]
