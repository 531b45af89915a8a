"""Kill only the runner of a search at random moments: `python -m tests.soak.searches --kills 100`.

Each search is killed several times and then compared with an uninterrupted one: the same decisions, metrics and best
trial.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.experiment.runner.test_killed_runners import CONFIG, LINEAR
from tests.helpers.searches import Search, kill_after

KILLS_IN_A_SEARCH = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-searches-") as directory:
        broken = kill_searches(Path(directory), arguments.kills, arguments.seed)
    print(f"\n{arguments.kills} kills of runners, {len(broken)} searches ended otherwise")
    sys.exit(1 if broken else 0)


def kill_searches(directory: Path, kills: int, seed: int) -> list[str]:
    """Kill N times, in as many searches as necessary; return the differences."""
    undisturbed = Search(directory / "undisturbed", LINEAR, CONFIG, is_warm=False)
    experiment = undisturbed.create()
    began = time.monotonic()
    undisturbed.activate(experiment)
    expected = undisturbed.record(experiment)
    print(f"undisturbed: {time.monotonic() - began:.1f} s, best {expected['best']}", flush=True)
    moments = random.Random(seed)
    broken: list[str] = []
    done = number = 0
    while done < kills:
        number += 1
        search = Search(directory / f"search-{number}", LINEAR, CONFIG, is_warm=False)
        experiment = search.create()
        hits = _kill(search, experiment, moments, min(KILLS_IN_A_SEARCH, kills - done))
        done += hits
        found = differences(search.record(experiment), expected)
        broken += [f"search {number}: {difference}" for difference in found]
        print(f"search {number}: {hits} kills ({done}), {len(found)} differences", *found[:5], sep="\n    ", flush=True)
    return broken


def _kill(search: Search, experiment: int, moments: random.Random, most: int) -> int:
    for hits in range(most):
        if not kill_after(search.start(experiment), moments.uniform(0.3, 6.0)):
            return hits
        search.wait_for_exits()
    search.activate(experiment)
    return most


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Return the differences in words, the first few of each trial."""
    found = [
        f"{name}: {ours[name]} instead of {theirs[name]}" for name in ("state", "best") if ours[name] != theirs[name]
    ]
    if ours["trials"].keys() != theirs["trials"].keys():
        found.append(f"trials {sorted(ours['trials'])} instead of {sorted(theirs['trials'])}")
    for number in ours["trials"].keys() & theirs["trials"].keys():
        one, other = ours["trials"][number], theirs["trials"][number]
        for name in one:
            if one[name] == other[name]:
                continue
            if name == "metrics":
                missing = sorted(set(other[name]) - set(one[name]))
                added = sorted(set(one[name]) - set(other[name]))
                found.append(f"trial {number}: metrics missing {missing[:2]}, added {added[:2]}")
            else:
                found.append(f"trial {number}: {name} {one[name]} instead of {other[name]}")
    return found


if __name__ == "__main__":
    main()
