"""How numbers are taken, so that a busy machine changes them little.

**Turns.** A contender and the bare loop work in one process and take turns in blocks of 100 batches, each with one
report. The contender's loop runs only once and is never restarted: it pulls batches from a feed of ours, and between
two blocks the feed itself stops the clock, lets the bare loop have its block, and starts the clock again. So start-up
and shutdown of the contender are outside of what is measured, everything that it does between batches (reports,
progress, event files) is inside, and the same feed serves every contender, whatever its loop looks like. Inside a
block the feed is `itertools.chain` over a list: no Python code of ours runs between two batches.

**Pairs.** A block of the contender and its neighbour, a block of the bare loop, make a pair; which comes first is
drawn anew for each. The result is the median of the ratios of all pairs, with the quartiles beside it. Pairs of
several processes go together, because a process keeps its luck with memory addresses for life.

**CPU time.** `time.process_time()`, all threads of the process, torch with one thread, the garbage collector off
on both sides: waiting for other programs does not count.

**Instructions.** One process under `valgrind --tool=callgrind`, in which the bare loop and ours take one long turn
each. The feed calls `mark()` between them, and callgrind writes down what was counted since the mark before: start-up
is not in it, and the number hardly depends on what else the machine does. Programs run some fifty times slower in
there, so their clock is slowed down as much (`slow_clock`): what is done once a second shall not count fifty times.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Effort:
    """The number of repetitions."""

    block: int = 100  # batches of a block, with one report in it
    pairs: int = 60  # pairs of blocks in a process
    processes: int = 3
    heavy_block: int = 25  # batches of a block where one takes milliseconds
    validation_batches: int = 2000
    validations: int = 10
    starts: int = 7  # pairs of processes whose start is measured
    instructions: int = 600  # batches under callgrind
    sampler_records: int = 1_000_000
    store_rows: int = 1_000_000
    checkpoints: int = 11
    checkpoint_megabytes: int = 384
    search_trials: int = 10_000


FULL = Effort()
QUICK = Effort(pairs=40, processes=1, validations=6, starts=3, store_rows=100_000, checkpoints=5)
SMOKE = Effort(
    block=20,
    pairs=2,
    processes=1,
    heavy_block=4,
    validation_batches=20,
    validations=2,
    starts=1,
    instructions=20,
    sampler_records=10_000,
    store_rows=4_000,
    checkpoints=2,
    checkpoint_megabytes=3,
    search_trials=100,
)


@dataclass(frozen=True)
class Pairs:
    """Seconds of CPU time per batch: of the contender, and of the bare loop next to it."""

    own: list[float]
    bare: list[float]

    def ratios(self) -> list[float]:
        return [own / bare for own, bare in zip(self.own, self.bare, strict=True)]

    @classmethod
    def together(cls, several: Sequence[Pairs]) -> Pairs:
        return cls([t for one in several for t in one.own], [t for one in several for t in one.bare])


@dataclass(frozen=True)
class Summary:
    """Medians over pairs, and the quartiles of the ratio."""

    own_us: float
    bare_us: float
    ratio: float
    low: float
    high: float
    pairs: int


def summarize(pairs: Pairs) -> Summary:
    ratios = sorted(pairs.ratios())
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    return Summary(
        own_us=statistics.median(pairs.own) * 1e6,
        bare_us=statistics.median(pairs.bare) * 1e6,
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        pairs=len(ratios),
    )


class Turns:
    """Blocks for a contender, between which the bare loop has its turns; see the top of this file."""

    def __init__(
        self,
        block: Sequence[Any],
        bare: Callable[[Sequence[Any]], None],
        pairs: int,
        *,
        seed: int = 0,
        warm_up: int = 1,
    ) -> None:
        self.block = block
        self.bare = bare
        self.pairs = pairs
        self.warm_up = warm_up
        self.result = Pairs([], [])
        self._random = random.Random(seed)

    def __len__(self) -> int:
        """How many batches the contender has to train; the last one only closes the last block."""
        return (self.warm_up + self.pairs) * len(self.block) + 1

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[Sequence[Any]]:
        gc.collect()
        gc.disable()
        for _ in range(self.warm_up):
            self._bare_turn()
            yield self.block
        for _ in range(self.pairs):
            bare_first = self._random.random() < 0.5
            if bare_first:
                bare = self._bare_turn()
            start = time.process_time()
            yield self.block
            own = time.process_time() - start
            if not bare_first:
                bare = self._bare_turn()
            self.result.own.append(own / len(self.block))
            self.result.bare.append(bare / len(self.block))
        yield self.block[:1]
        gc.enable()

    def _bare_turn(self) -> float:
        start = time.process_time()
        self.bare(self.block)
        return time.process_time() - start


def alternate(own: Callable[[], int], bare: Callable[[], int], pairs: int, *, seed: int = 0, warm_up: int = 1) -> Pairs:
    """Pairs for two functions that can be called at will; each returns how many batches it went through."""

    def timed(function: Callable[[], int]) -> float:
        start = time.process_time()
        batches = function()
        return (time.process_time() - start) / batches

    rng, result = random.Random(seed), Pairs([], [])
    gc.collect()
    gc.disable()
    for number in range(warm_up + pairs):
        own_first = rng.random() < 0.5
        first = timed(own if own_first else bare)
        second = timed(bare if own_first else own)
        if number >= warm_up:
            result.own.append(first if own_first else second)
            result.bare.append(second if own_first else first)
    gc.enable()
    return result


def child_environment(home: Path) -> dict[str, str]:
    """Return an environment with one thread, a temporary data directory, and no variables of an outer run.

    Sources are compiled once and the result is kept, as on any machine that does not forbid it: torch's as well.
    """
    dropped = ("DET_", "PYTHONDONTWRITEBYTECODE")
    keep = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {
        **keep,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")])),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "XDG_DATA_HOME": str(home / "data"),
    }


class ChildError(RuntimeError):
    """A measuring process failed; the message is the end of its output."""


def in_child(
    function: str,
    arguments: Mapping[str, Any],
    *,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Call `module:function(**arguments)` in a separate process; arguments and result are passed as JSON."""
    return in_children(function, [arguments], prefix=prefix, environments=[environment or {}])[0]


def in_children(
    function: str,
    arguments: Sequence[Mapping[str, Any]],
    *,
    prefix: Sequence[str] = (),
    environments: Sequence[Mapping[str, str]],
) -> list[Any]:
    """The same in several processes at once: the ranks of a job."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        # A separate script, as users have one: its directory is small, and so is the snapshot of its code.
        script = home / "program.py"
        script.write_text("from bench.child import main\n\nmain()\n")
        started = []
        for number, (one, environment) in enumerate(zip(arguments, environments, strict=True)):
            command = [*prefix, sys.executable, str(script), function, json.dumps(dict(one))]
            with open(home / f"{number}.log", "w") as log:
                started.append(
                    subprocess.Popen(
                        [*command, str(home / f"{number}.json")],
                        env={**child_environment(home), **environment},
                        cwd=home,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        codes = [process.wait() for process in started]
        if any(codes):
            number = next(number for number, code in enumerate(codes) if code)
            raise ChildError((home / f"{number}.log").read_text()[-3000:])
        return [json.loads((home / f"{number}.json").read_text()) for number in range(len(started))]


def pairs_in_children(function: str, arguments: Mapping[str, Any], processes: int) -> Pairs:
    """Call `module:function(seed=..., **arguments)` in several processes in sequence; return all pairs."""
    return Pairs.together([Pairs(**in_child(function, {**arguments, "seed": seed})) for seed in range(processes)])


def as_json(pairs: Pairs) -> dict[str, Any]:
    return asdict(pairs)


def slow_clock(factor: float = 50) -> None:
    """Slow the clock of this process down as much as callgrind slows down the process."""
    real, start = time.monotonic, time.monotonic()
    time.monotonic = lambda: start + (real() - start) / factor


def valgrind() -> str | None:
    return shutil.which("valgrind")


def mark() -> None:
    """Under `instructions`: end a count, and begin the next one. Otherwise do nothing."""
    os.getpriority(os.PRIO_PROCESS, 0)  # a function of the C library that is not called otherwise


def instructions(function: str, arguments: Mapping[str, Any]) -> list[int]:
    """Return the instructions that `module:function(**arguments)` takes between marks."""
    program = valgrind()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        profile = Path(directory) / "callgrind.out"
        in_child(
            function,
            arguments,
            prefix=[
                program,
                "--tool=callgrind",
                "--quiet",
                "--dump-before=getpriority",
                f"--callgrind-out-file={profile}",
            ],
            environment={"PYTHONHASHSEED": "0"},
        )
        # Files .1, .2, ... end with a mark each; instructions before the first mark are start-up.
        dumps = sorted(Path(directory).glob("callgrind.out.*"), key=lambda path: int(path.suffix[1:]))
        return [sum(map(int, re.findall(r"^totals: (\d+)", d.read_text(), re.MULTILINE))) for d in dumps[1:]]
