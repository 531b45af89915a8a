"""Kill a training program again and again, in every phase, and check that nothing is lost: `make soak`.

    python -m tests.soak --cycles 120 --seed 0

Half of the SIGKILLs hit the writing of a checkpoint. The exit code is 1 if any promise was broken.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from tests.soak import lost_ranks
from tests.soak.lives import ONLY_CHIEF, Hit, Kill, Life

CONFIGURATIONS = [(1, 0), (1, 2), (2, 0), (2, 2)]  # ranks, workers
KILLS_IN_A_LIFE = 8

IN_A_WRITE = ("write", "written", "published")
ANYWHERE = (
    "batch",
    "aggregation",
    "validation",
    "report",
    "reported",
    "saving",
    "restore",
    "startup",
    "begin",
    "shutdown",
)
STOPPABLE = ("batch", "aggregation", "validation", "report", "reported", "write", "published", "restore")
# How often a program reaches a phase in about two checkpoint periods: a later kill would wait until the end.
MOST_TIMES = {"batch": 12, "aggregation": 8, "validation": 10, "report": 3, "write": 3, "written": 3, "published": 3}


def main() -> None:
    arguments = _parse()
    with nullcontext(arguments.keep) if arguments.keep else tempfile.TemporaryDirectory(prefix="soak-") as directory:
        hits, differences = kill_matrix(Path(directory), arguments.cycles, arguments.seed, arguments.configurations)
        ways = [] if arguments.without_lost_ranks else lost_ranks.try_all(Path(directory) / "lost")
    _print_table(hits)
    lost_ranks.print_table(ways)
    broken = [f"{hit.kill}: {what}" for hit in hits for what in hit.violations] + differences
    broken += [f"{way.name}: {what}" for way in ways for what in way.violations]
    print(f"\n{len(hits)} kills, {len(ways)} lost ranks, {len(broken)} promises broken")
    for one in broken:
        print(f"- {one}")
    sys.exit(1 if broken else 0)


def kill_matrix(
    directory: Path, cycles: int, seed: int, configurations: list[tuple[int, int]]
) -> tuple[list[Hit], list[str]]:
    """Kill N times, in lives of all configurations; each life is compared with an uninterrupted one."""
    rng = random.Random(seed)
    hits: list[Hit] = []
    differences: list[str] = []
    undisturbed: dict[tuple[int, int], Life] = {}
    number = 0
    while len(hits) < cycles:
        ranks, workers = configurations[number % len(configurations)]
        if (ranks, workers) not in undisturbed:
            undisturbed[ranks, workers] = Life(
                directory / f"undisturbed-{ranks}-{workers}", ranks=ranks, workers=workers
            )
            undisturbed[ranks, workers].run()
        life = Life(directory / f"life-{number}", ranks=ranks, workers=workers)
        number += 1
        print(f"\nlife {number}: {ranks} ranks, {workers} workers", flush=True)
        done = False
        for kill in plan(rng, ranks, min(KILLS_IN_A_LIFE, cycles - len(hits))):
            began = time.monotonic()
            hit = life.hit(kill)
            done = not hit.reached
            if done:
                differences += [f"life {number}: {what}" for what in hit.violations]
                break
            hits.append(hit)
            told = "; ".join(hit.violations) or "ok"
            spent = time.monotonic() - began
            print(f"{len(hits):4} {kill}: codes {hit.codes}, {hit.lost} lost, {spent:.0f} s: {told}", flush=True)
        if not done:
            life.run()
        found = life.differences(undisturbed[ranks, workers])
        differences += [f"life {number}: {one}" for one in found]
        print(f"     done, {len(found)} differences to the undisturbed run", flush=True)
    return hits, differences


def plan(rng: random.Random, ranks: int, count: int) -> Iterator[Kill]:
    """Three of four kills are SIGKILLs; half of these hit the writing of a checkpoint."""
    for _ in range(count):
        kind = signal.SIGKILL if rng.random() < 0.75 else signal.SIGTERM
        target = rng.choice([None, *range(ranks)]) if ranks > 1 else None
        if kind is signal.SIGKILL and rng.random() < 0.5:
            phase = rng.choice(IN_A_WRITE)
        elif rng.random() < 0.3:
            base = "training" if kind is signal.SIGTERM or rng.random() < 0.7 else "begin"
            yield Kill(kind, base, seconds_later=rng.uniform(0.01, 0.7), target=target)
            continue
        else:
            phase = rng.choice(STOPPABLE if kind is signal.SIGTERM else ANYWHERE)
        yield Kill(kind, phase, rng.randint(1, MOST_TIMES.get(phase, 1)), target=target)


def _print_table(hits: list[Hit]) -> None:
    groups: dict[tuple[str, str], list[Hit]] = defaultdict(list)
    for hit in hits:
        phase = "a random moment" if hit.kill.seconds_later else hit.kill.phase
        groups[hit.kill.signal.name, phase].append(hit)
    print(f"\n{'signal':8} {'phase':16} {'kills':>5} {'batches lost':>13} {'seconds to end':>15} {'broken':>7}")
    for (name, phase), some in sorted(groups.items()):
        lost, seconds = max(hit.lost for hit in some), max(hit.seconds for hit in some)
        broken = sum(bool(hit.violations) for hit in some)
        print(f"{name:8} {phase:16} {len(some):5} {f'<= {lost}':>13} {f'<= {seconds:.1f}':>15} {broken:7}")
    for name in ("SIGKILL", "SIGTERM"):
        aimed = [hit for hit in hits if hit.kill.signal.name == name]
        inside = sum(hit.kill.phase in ONLY_CHIEF[:3] for hit in aimed)
        print(f"{name}: {len(aimed)}, of them {inside} in the writing of a checkpoint")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=120, help="how many kills")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--without-lost-ranks", action="store_true", help="leave out the ranks that are lost")
    parser.add_argument("--ranks", type=int, choices=(1, 2), help="programs of so many ranks alone")
    parser.add_argument("--keep", type=Path, help="a directory for what the programs leave, which stays")
    arguments = parser.parse_args()
    arguments.configurations = [one for one in CONFIGURATIONS if arguments.ranks in (None, one[0])]
    return arguments


if __name__ == "__main__":
    main()
