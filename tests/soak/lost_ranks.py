"""Every way to lose a rank: the other one must end soon, with an error that names it."""

from __future__ import annotations

import itertools
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.lives import COLLECTIVE_TIMEOUT, SECONDS_FOR_AN_END, Life, orphans, reaches_phase, waited_for

HOW = ("exit0", "exit1", "SIGKILL", "SIGSTOP", "exception")
WHERE = {"batch": 3, "validation": 2, "saving": 2}  # at the n-th time; that batch exchanges gradients


@dataclass
class Way:
    """How a rank was lost, and the reaction of the other one."""

    how: str
    where: str
    lost: int
    code: int | None = None
    seconds: float = 0.0
    said: str = ""
    violations: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"rank {self.lost} lost by {self.how} in {self.where}"


def try_all(directory: Path) -> list[Way]:
    """Try all ways, for either rank."""
    ways = []
    for where, how, lost in itertools.product(WHERE, HOW, (0, 1)):
        way = lose(directory / f"{where}-{how}-{lost}", how, where, lost)
        print(
            f"{way.name}: code {way.code} after {way.seconds:.1f} s: {'; '.join(way.violations) or way.said}",
            flush=True,
        )
        ways.append(way)
    return ways


def lose(directory: Path, how: str, where: str, lost: int, *, is_warm: bool = False) -> Way:
    """End one of two ranks in this way, and return the reaction of the other one."""
    way = Way(how, where, lost)
    life = Life(directory, ranks=2, is_warm=is_warm)
    with life.started(f"{where}:{WHERE[where]}", lost, LOSE=how) as processes:
        if not reaches_phase(processes[lost]):
            raise RuntimeError(f"rank {lost} never came to {where}:\n{life.errors()}")
        start = time.monotonic()
        limit = SECONDS_FOR_AN_END + (COLLECTIVE_TIMEOUT if how == "SIGSTOP" else 0)
        survivor = processes[1 - lost]
        late = waited_for([survivor], start + limit)
        way.seconds = time.monotonic() - start
        way.code = survivor.poll()
        if late:
            way.violations.append(f"the other rank was still there after {limit:.0f} s")
        processes[lost].send_signal(signal.SIGKILL)
        processes[lost].wait()
        if not late and (left := orphans(life.mark)):
            way.violations.append(f"processes are left: {left}")
    errors = life.errors_of(1 - lost).strip().splitlines()
    # After the error comes how to continue.
    way.said = next((line for line in reversed(errors) if "Error: " in line), errors[-1] if errors else "")
    if not way.code or way.code < 0:
        way.violations.append(f"the other rank ended with {way.code}: {way.said}")
    elif f"rank {lost}" not in way.said:
        way.violations.append(f"the other rank's error does not name rank {lost}: {way.said}")
    return way


def print_table(ways: list[Way]) -> None:
    print(f"\n{'lost by':10} {'in':11} {'rank':>4} {'other ends with':>16} {'after seconds':>14}")
    for way in ways:
        broken = "  BROKEN" if way.violations else ""
        print(f"{way.how:10} {way.where:11} {way.lost:4} {way.code!s:>16} {way.seconds:14.1f}{broken}")
