"""One life of the training program: killed, restarted until it has ended, and compared with an uninterrupted one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from determined.checkpoint_storage import manifest
from determined.checkpoint_storage.base import METADATA_FILE
from determined.errors import InvalidCheckpointException
from determined.store.records import StoredCheckpoint
from tests.helpers import records, warm
from tests.helpers.ranks import free_port

PROGRAM = Path(__file__).with_name("program.py")
REPOSITORY = PROGRAM.parents[2]
LENGTH, CHECKPOINT_PERIOD = 40, 5
COLLECTIVE_TIMEOUT = 10.0
SECONDS_FOR_AN_END = 30.0  # of a rank that was requested to stop, or lost another one
SECONDS_FOR_ORPHANS = 5.0
SECONDS_FOR_A_PHASE = 120.0
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Kill:
    """A signal for one rank, or all, in a phase of the program, or some time after it."""

    signal: signal.Signals
    phase: str
    number: int = 1  # at the n-th time in that phase
    seconds_later: float = 0.0
    target: int | None = None  # a rank; None: all

    def __str__(self) -> str:
        when = f"{self.phase} {self.number}" + (f" +{self.seconds_later:.2f} s" if self.seconds_later else "")
        whom = "all" if self.target is None else f"rank {self.target}"
        return f"{self.signal.name} to {whom} in {when}"


@dataclass
class Hit:
    """The result of a kill."""

    kill: Kill
    reached: bool  # else the program had ended before that phase
    codes: list[int]
    seconds: float = 0.0  # from the signal to the end of the last rank
    lost: int = 0  # batches that must be trained again
    violations: list[str] = field(default_factory=list)


class Life:
    """A directory in which the program trains, with a separate store and separate checkpoints."""

    def __init__(self, directory: Path, *, ranks: int = 1, workers: int = 0, is_warm: bool = False) -> None:
        """With `is_warm`, the processes are forked from the warm interpreter (see `tests.helpers.warm`)."""
        directory.mkdir(parents=True)
        self.directory = directory
        # A copy: in this repository the project of the program, which each run copies, would be the repository.
        self._program = directory / "program" / PROGRAM.name
        self._program.parent.mkdir(exist_ok=True)
        shutil.copyfile(PROGRAM, self._program)
        self.ranks = ranks
        self.workers = workers
        self.is_warm = is_warm
        self.data_home = directory / "data"
        self.storage = self.data_home / "determined" / "checkpoints"
        self._looked_at: set[str] = set()
        self._starts = 0

    def run(self) -> None:
        """Run it to its end without interruption."""
        with self.started("nowhere:1", 0) as processes:
            codes = [process.wait(timeout=SECONDS_FOR_A_PHASE) for process in processes]
        if codes != [0] * self.ranks:
            raise RuntimeError(f"the undisturbed run ended with {codes}:\n{self.errors()}")

    def hit(self, kill: Kill) -> Hit:
        """Start the program, from its latest checkpoint if it has one; kill it; check what it has left."""
        aimed_at = kill.target if kill.target is not None and kill.phase not in ONLY_CHIEF else 0
        before = self.published()
        unfinished = self._unfinished()
        logged = [len(self.log(rank)) for rank in range(self.ranks)]
        with self.started(f"{kill.phase}:{kill.number}", aimed_at) as processes:
            reached = reaches_phase(processes[aimed_at])
            if not reached:
                hit = Hit(kill, False, [process.wait(timeout=SECONDS_FOR_A_PHASE) for process in processes])
                if any(hit.codes):
                    hit.violations.append(f"ended with {hit.codes} by itself: {self.errors()}")
                return hit
            if kill.seconds_later:
                release(processes[aimed_at])
                time.sleep(kill.seconds_later)
            start = time.monotonic()
            for rank in range(self.ranks) if kill.target is None else [kill.target]:
                processes[rank].send_signal(kill.signal)
            if not kill.seconds_later:
                release(processes[aimed_at])
            limit = SECONDS_FOR_AN_END + (0 if kill.signal is signal.SIGTERM else COLLECTIVE_TIMEOUT)
            late = waited_for(processes, start + limit)
            hit = Hit(kill, True, [process.poll() or 0 for process in processes], time.monotonic() - start)
            if late:
                hit.violations.append(f"ranks {late} were still there after {limit:.0f} s")
            left = orphans(self.mark)
            if left:
                hit.violations.append(f"left {SECONDS_FOR_ORPHANS:.0f} s after the end: {left}")
        lines = [self.log(rank)[count:] for rank, count in enumerate(logged)]
        self._check(hit, lines, before, unfinished)
        return hit

    def _check(self, hit: Hit, lines: list[list[str]], before: int, unfinished: set[str]) -> None:
        tell = hit.violations.append
        for problem in self.broken_checkpoints():
            tell(problem)
        newest = self.newest()
        trained = max((_number(line) + 1 for rank in lines for line in rank if line.startswith("end")), default=before)
        begun = [_number(line) for rank in lines for line in rank if line.startswith("begin")]
        if begun:
            if min(begun) != before:
                tell(f"began at batch {min(begun)}, and the newest checkpoint was of batch {before}")
            if still := unfinished & self._unfinished():
                tell(f"unfinished checkpoints of an earlier start are still there: {still}")
        hit.lost = max(0, trained - newest)
        if hit.kill.signal is signal.SIGTERM:
            self._check_stop(hit, newest, trained)
        else:
            # One period, and the previous one while its checkpoint is being written.
            if newest < (trained - 1) // CHECKPOINT_PERIOD * CHECKPOINT_PERIOD - CHECKPOINT_PERIOD:
                tell(f"{trained} batches were trained, and the newest checkpoint is of batch {newest}")
            if hit.kill.target is not None and not all(hit.codes) and trained < LENGTH:
                tell(f"a rank ended well although another was lost: {hit.codes}")

    def _check_stop(self, hit: Hit, newest: int, trained: int) -> None:
        # When all is trained and saved, no rank handles the signal any more, or it is too late to change the exit code.
        fine = {143} if trained < LENGTH else {143, 0, -signal.SIGTERM}
        if not fine.issuperset(hit.codes):
            hit.violations.append(f"ended with {hit.codes} instead of 143:\n{self.errors()}")
        elif newest != trained:
            hit.violations.append(f"{trained} batches were trained and {newest} are saved")

    def differences(self, undisturbed: Life) -> list[str]:
        """Return the differences between this life and an uninterrupted one, when both have ended."""
        found = list(self.broken_checkpoints(all_of_them=True))
        for rank in range(self.ranks):
            expected = set(undisturbed.log(rank))
            found += [f"rank {rank} did otherwise: {line}" for line in self.log(rank) if line not in expected]
        ours, theirs = self.record(), undisturbed.record()
        if ours != theirs:
            keys = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
            found.append(f"the record differs at {keys}")
        one, other = self.final_state(), undisturbed.final_state()
        for name in sorted({*one, *other}):
            if name not in one or name not in other or not _equal(one[name], other[name]):
                found.append(
                    f"the last checkpoint has another {name}: {_short(one.get(name))}, not {_short(other.get(name))}"
                )
        if unfinished := self._unfinished():
            found.append(f"unfinished checkpoints are left: {unfinished}")
        return found

    def record(self) -> dict[tuple[str, int], Any]:
        """Return the metrics of the trial that was trained to its end."""
        with records.opened(self.data_home) as store:
            rows = store.metrics(store.runs()[0].trial_id)
        kept = {(row.group, row.steps_completed or 0): row.metrics for row in rows}
        if len(kept) != len(rows):
            raise RuntimeError("the store has a step twice")
        return kept

    def final_state(self) -> dict[str, Any]:
        """Return everything in the last checkpoint, each value under the path to it."""
        newest = max(self.announced(), key=lambda row: (row.steps_completed, row.reported))
        directory = self.storage / newest.checkpoint_id
        counters = json.loads((directory / "trial_state.json").read_text())
        leaves, _ = tree_flatten_with_path({"state": torch.load(directory / "state_dict.pth"), "counters": counters})
        return {keystr(path): value for path, value in leaves}

    def announced(self) -> list[StoredCheckpoint]:
        if not (self.data_home / "determined" / "store.sqlite").exists():
            return []
        return records.announced(self.data_home)

    def newest(self) -> int:
        """Return the number of batches of the newest announced checkpoint."""
        return max((row.steps_completed for row in self.announced()), default=0)

    def published(self) -> int:
        """Return the number of batches of the newest complete checkpoint, also if it is not recorded yet."""
        complete = [path for path in self.storage.glob("*") if _ID.fullmatch(path.name)]
        steps = [json.loads((path / METADATA_FILE).read_text())["steps_completed"] for path in complete]
        return max(steps, default=0)

    def broken_checkpoints(self, *, all_of_them: bool = False) -> Iterator[str]:
        """Return incomplete checkpoints: every directory named like one is checked, and announced ones must exist."""
        seen = {entry.name for entry in self.storage.iterdir()} if self.storage.exists() else set()
        ids = {name for name in seen if _ID.fullmatch(name)}
        for missing in {row.checkpoint_id for row in self.announced()} - ids:
            yield f"checkpoint {missing} was announced and is not there"
        if all_of_them:  # at the end of the last life, which records what killed ones could not
            for unrecorded in ids - {row.checkpoint_id for row in self.announced()}:
                yield f"checkpoint {unrecorded} is there and was never recorded"
        for name in ids if all_of_them else ids - self._looked_at:
            self._looked_at.add(name)
            try:
                manifest.verify(self.storage / name, name)
                torch.load(self.storage / name / "state_dict.pth")
            except (InvalidCheckpointException, OSError, RuntimeError, ValueError) as error:
                yield f"checkpoint {name} looks whole and is not: {error}"

    def log(self, rank: int) -> list[str]:
        """Return the complete lines: the last one may have been cut with the program."""
        file = self.directory / f"batches-{rank}.log"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def errors(self) -> str:
        """Return the errors that the ranks of the last start printed at their end."""
        return "\n".join(f"rank {rank}: ...{self.errors_of(rank)[-1500:]}" for rank in range(self.ranks))

    def errors_of(self, rank: int) -> str:
        return (self.directory / f"errors-{self._starts}-{rank}").read_text()

    def _unfinished(self) -> set[str]:
        if not self.storage.exists():
            return set()
        return {entry.name for entry in self.storage.iterdir() if entry.name.startswith((".staging-", ".deleted-"))}

    @contextlib.contextmanager
    def started(self, aim: str, aimed_at: int, **env: str) -> Iterator[list[subprocess.Popen[bytes]]]:
        self._starts += 1
        self.mark = str(uuid.uuid4())
        (self.directory / "count").unlink(missing_ok=True)
        port = str(free_port())
        processes: list[subprocess.Popen[Any]] = []
        start = warm.Popen if self.is_warm else subprocess.Popen
        for rank in range(self.ranks):
            variables = {
                **{name: value for name, value in os.environ.items() if not name.startswith("DET_")},
                "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")])),
                "XDG_DATA_HOME": str(self.data_home),
                "OMP_NUM_THREADS": "1",
                "DET_PROGRESS": "0",
                "DET_COLLECTIVE_TIMEOUT": str(COLLECTIVE_TIMEOUT),
                "SOAK_DIRECTORY": str(self.directory),
                "SOAK_MARK": self.mark,
                "WORKERS": str(self.workers),
                "LENGTH": str(LENGTH),
                **env,
            }
            if rank == aimed_at:
                variables["AIM"] = aim
            if self.ranks > 1:
                variables |= {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(self.ranks),
                    "LOCAL_WORLD_SIZE": str(self.ranks),
                    "GROUP_RANK": "0",
                    "GROUP_WORLD_SIZE": "1",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                }
            with open(self.directory / f"errors-{self._starts}-{rank}", "wb") as errors:
                processes.append(
                    start(
                        [sys.executable, self._program],
                        cwd=self.directory,
                        env=variables,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        start_new_session=True,
                    )
                )
        try:
            yield processes
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    assert pipe is not None
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()


# Phases that only rank 0 reaches.
ONLY_CHIEF = ("write", "written", "published", "report")


def reaches_phase(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process reaches the phase of the kill."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], SECONDS_FOR_A_PHASE)[0]:
        raise RuntimeError("the program neither came to the phase nor ended")
    return bool(os.read(process.stdout.fileno(), 100))


def release(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), b".")


def waited_for(processes: list[subprocess.Popen[bytes]], deadline: float) -> list[int]:
    """Return the ranks that still run at that time."""
    late = []
    for rank, process in enumerate(processes):
        try:
            process.wait(timeout=max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            late.append(rank)
    return late


def orphans(mark: str) -> list[str]:
    """Return processes of a start that outlive it: they inherited its mark."""
    deadline = time.monotonic() + SECONDS_FOR_ORPHANS
    while True:
        left = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("SOAK_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(process.cmdline()[:3]))
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _short(value: Any) -> str:
    return f"{value!r:.60}".replace("\n", " ")


def _equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


def _number(line: str) -> int:
    return int(line.split()[1])
