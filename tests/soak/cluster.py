"""Kill nodes, actors and the runner of a search on a Ray cluster: `python -m tests.soak.cluster --kills 50`.

The search must end with the record of an uninterrupted one on this machine: decisions, metrics and best trial. Needs
the package ray: `make ray` creates an environment with it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.experiment.runner.test_killed_runners import CONFIG
from tests.helpers.searches import Search, kill_after
from tests.ray.cluster import RayCluster
from tests.soak.searches import differences

MODEL = Path(__file__).parents[1] / "ray" / "model"
NODES = ("127.0.0.3", "127.0.0.4")
KILLS_OF_A_SHORT_SEARCH = 10
SECONDS_OF_A_BATCH = 0.05  # in a search that is long enough for so many kills
VICTIMS = ("raylet", "node", "actor", "runner")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-cluster-") as directory:
        broken = kill_parts(Path(directory), arguments.kills, random.Random(arguments.seed))
    print(f"\n{arguments.kills} kills in clusters, {len(broken)} differences")
    sys.exit(1 if broken else 0)


def kill_parts(directory: Path, kills: int, luck: random.Random) -> list[str]:
    """Kill N times in one search, and in further ones if it ended before; return the differences."""
    seconds = SECONDS_OF_A_BATCH * max(1.0, kills / KILLS_OF_A_SHORT_SEARCH)
    expected = _undisturbed(directory / "undisturbed", seconds)
    broken: list[str] = []
    done = number = 0
    # The runner is connected to the head, which has no slots and is not killed.
    with RayCluster(cpus=0) as cluster:
        while done < kills:
            number += 1
            search = _search(directory / f"search-{number}", cluster, seconds)
            experiment = search.create()
            hits = _disturb(search, experiment, cluster, luck, kills - done)
            done += sum(hits.values())
            found = differences(search.record(experiment), expected)
            broken += [f"search {number}: {difference}" for difference in found]
            print(f"search {number}: {hits} ({done})", *found[:5], sep="\n    ", flush=True)
    return broken


def _disturb(search: Search, experiment: int, cluster: RayCluster, luck: random.Random, most: int) -> dict[str, int]:
    """Run a search and kill its parts until it has ended; return how often each was killed."""
    hits = dict.fromkeys(VICTIMS, 0)
    runner = None
    for _ in range(most):
        _repair(cluster)
        runner = runner or search.start(experiment)
        victim = luck.choice(VICTIMS)
        if not _outlasts(runner, luck.uniform(1.0, 8.0)):
            break
        hits[victim] += 1
        if victim == "runner":
            assert kill_after(runner, 0)
            runner = None
            # A runner that starts at once must cope with processes that are still ending.
            continue
        node = cluster.nodes[luck.choice(NODES)]
        {"raylet": node.kill_raylet, "node": node.kill, "actor": node.kill_actors}[victim]()
    _repair(cluster)
    code = (runner or search.start(experiment)).wait(3600)
    assert code == 0, search.said.read_text()
    return hits


def _outlasts(runner: Any, seconds: float) -> bool:
    """Return whether the runner is still running after this time."""
    ends = time.monotonic() + seconds
    while runner.poll() is None and time.monotonic() < ends:
        time.sleep(0.05)
    return runner.poll() is None


def _repair(cluster: RayCluster) -> None:
    """Start the killed nodes again."""
    cluster.arrange(dict.fromkeys(NODES, 2))


def _undisturbed(home: Path, seconds: float) -> dict[str, Any]:
    search = _search(home, None, seconds)
    experiment = search.create()
    search.activate(experiment, timeout=3600)
    record = search.record(experiment)
    print(f"undisturbed: best {record['best']}", flush=True)
    return record


def _search(home: Path, cluster: RayCluster | None, seconds: float) -> Search:
    """Return the search of the other soak test, with batches that take so long, so that kills hit them."""
    storage = home / "checkpoints"
    storage.mkdir(parents=True)
    config = {
        **CONFIG,
        "entrypoint": "model_def:SlowTrial",
        "hyperparameters": {**CONFIG["hyperparameters"], "seconds": seconds},
        "checkpoint_storage": {"type": "shared_fs", "host_path": str(storage)},
        "max_restarts": 0,  # a loss must not count as a restart
    }
    environment = {} if cluster is None else cluster.environment()
    return Search(home, MODEL, config, environment=environment, is_warm=False)


if __name__ == "__main__":
    main()
