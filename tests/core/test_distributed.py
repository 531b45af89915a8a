"""`DistributedContext`: ranks, collectives between real processes, and ranks that are lost."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import subprocess
import sys
from typing import Any

import pytest

from determined import core
from determined.core.ranks.launcher_environment import read_tf_config
from determined.core.ranks.object_group import ObjectGroup
from determined.errors import DistributedError, MissingExtraError
from tests.helpers.ranks import free_port, run_ranks, start_ranks

RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")


def context() -> core.DistributedContext:
    return core.DistributedContext.from_torch_distributed()


def test_the_signature_is_the_documented_one() -> None:
    parameters = inspect.signature(core.DistributedContext).parameters
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())
    assert {name: p.default for name, p in parameters.items()} == {
        "rank": None,
        "size": None,
        "local_rank": None,
        "local_size": None,
        "cross_rank": None,
        "cross_size": None,
        "chief_ip": None,
        "pub_port": 12360,
        "pull_port": 12376,
        "port_offset": 0,
        "force_tcp": False,
    }


def test_one_rank_needs_no_process_group() -> None:
    alone = core.DummyDistributedContext()
    payload = object()  # not even pickled
    assert alone.allgather(payload) == alone.gather(payload) == [payload]
    assert alone.allgather_local(payload) == alone.gather_local(payload) == [payload]
    assert alone.broadcast(payload) is payload
    assert alone.broadcast_local(payload) is payload
    assert alone.broadcast_local() is None
    assert (alone.get_rank(), alone.get_local_rank(), alone.get_size(), alone.get_num_agents()) == (0, 0, 1, 1)
    alone.close()
    alone.close()


@pytest.mark.parametrize(
    ("numbers", "error", "words"),
    [
        ({"rank": 0}, ValueError, "size"),
        ((0, 2, 0, 1, 0, 2), AssertionError, "chief_ip"),
        ((2, 2, 0, 2, 0, 1), ValueError, "rank"),
        ((0, 2, 0, 3, 0, 1), ValueError, "node"),
        (("0", 2, 0, 2, 0, 1), TypeError, "rank"),
        ((True, 2, 0, 2, 0, 1), TypeError, "rank"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers: Any, error: type[Exception], words: str) -> None:
    names = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
    given = numbers if isinstance(numbers, dict) else dict(zip(names, numbers, strict=True))
    with pytest.raises(error, match=words):
        core.DistributedContext(**given)


def test_missing_variables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE, LOCAL_RANK.*torchrun") as caught:
        core.DistributedContext.from_torch_distributed()
    assert isinstance(caught.value, KeyError)  # what older scripts catch
    for name in RANK_VARIABLES[1:]:
        monkeypatch.setenv(name, "one")
    with pytest.raises(ValueError, match=r"WORLD_SIZE.*'one'"):
        core.DistributedContext.from_torch_distributed()


def test_ranks_of_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_SIZE": 2, "CROSS_RANK": 1, "CROSS_SIZE": 2}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("DET_CHIEF_IP", "10.0.0.1")
    found = core.DistributedContext.from_deepspeed()
    assert (found.rank, found.size, found.local_rank, found.local_size) == (3, 4, 1, 2)
    assert (found.cross_rank, found.get_num_agents()) == (1, 2)


class Horovod:
    """The functions of an initialised horovod, for rank 1 of 2 on one node."""

    def rank(self) -> int:
        return 1

    def size(self) -> int:
        return 2

    local_rank, local_size = rank, size


def test_ranks_of_horovod_with_and_without_its_newer_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_CROSS_RANK", "0")
    monkeypatch.setenv("HOROVOD_CROSS_SIZE", "1")
    old = core.DistributedContext.from_horovod(Horovod())
    assert (old.rank, old.size, old.cross_rank, old.cross_size) == (1, 2, 0, 1)
    newer = Horovod()
    newer.cross_rank = lambda: 0  # type: ignore[attr-defined]
    newer.cross_size = lambda: 1  # type: ignore[attr-defined]
    monkeypatch.delenv("HOROVOD_CROSS_RANK")
    assert core.DistributedContext.from_horovod(newer).cross_size == 1


def test_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    assert read_tf_config({"TF_CONFIG": text}) == (1, ["a:1", "b:1"])
    with pytest.raises(ValueError, match="'ps'"):
        read_tf_config({"TF_CONFIG": text.replace('"worker", "index"', '"ps", "index"')})
    with pytest.raises(ValueError, match="TF_CONFIG"):
        read_tf_config({"TF_CONFIG": "{}"})
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(MissingExtraError, match="tensorflow"):
        core.DistributedContext.from_tf_config()


def without_a_meeting_point() -> str:
    try:
        context().allgather(1)
    except RuntimeError as error:
        return str(error)
    return ""


def test_ranks_that_cannot_connect_report_what_to_do() -> None:
    (only,) = run_ranks(
        without_a_meeting_point, n=1, env={"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": None}
    )
    assert "torchrun" in only.value
    assert "pub_port" in only.value


def all_collectives() -> dict[str, Any]:
    ranks = context()
    result: dict[str, Any] = {
        "allgather": ranks.allgather({"rank": ranks.rank}),
        "gather": ranks.gather(ranks.rank * 10),
        "broadcast": ranks.broadcast(f"from {ranks.rank}"),
        "local": [ranks.allgather_local(ranks.rank), ranks.gather_local(ranks.rank), ranks.broadcast_local(ranks.rank)],
        "large": [len(part) for part in ranks.allgather(b"x" * (100_000 + ranks.rank))],
        "large broadcast": len(ranks.broadcast(b"y" * (3_000_000 + ranks.rank))),
        "small after large": ranks.allgather(ranks.rank),
    }
    ranks.close()
    ranks.close()
    try:
        ranks.allgather(1)
    except RuntimeError as error:
        result["closed"] = str(error)
    again = context()  # a second context on the same store only meets itself
    result["second context"] = again.allgather("again")
    return result


def test_collectives_between_two_ranks() -> None:
    first, second = (rank.value for rank in run_ranks(all_collectives))
    for value in (first, second):
        assert value["allgather"] == [{"rank": 0}, {"rank": 1}]
        assert value["broadcast"] == "from 0"
        assert value["large"] == [100_000, 100_001]
        assert value["large broadcast"] == 3_000_000
        assert value["small after large"] == [0, 1]
        assert value["second context"] == ["again", "again"]
        assert "closed" in value["closed"]
    assert first["gather"] == [0, 10]
    assert second["gather"] is None
    assert first["local"] == [[0, 1], [0, 1], 0]


def test_two_nodes_of_two_ranks() -> None:
    values = [rank.value for rank in run_ranks(all_collectives, n=4, nodes=2)]
    assert [value["local"] for value in values] == [
        [[0, 1], [0, 1], 0],
        [[0, 1], None, 0],
        [[2, 3], [2, 3], 2],
        [[2, 3], None, 2],
    ]
    assert values[3]["allgather"] == [{"rank": rank} for rank in range(4)]


def count_collectives() -> list[int]:
    """Return how many operations of the transport each kind of payload takes."""
    ranks = context()
    ranks.allgather(None)
    assert isinstance(ranks._world, ObjectGroup)
    group = ranks._world._group
    counts = []

    def sequence() -> int:
        return int(group._get_sequence_number_for_group())

    group._set_sequence_number_for_group()
    for act in (
        lambda: ranks.allgather("small"),
        lambda: ranks.gather("small"),
        lambda: ranks.broadcast("small"),
        lambda: ranks.allgather("x" * 10_000),
        lambda: ranks.allgather("x" * 10_000),
    ):
        before = sequence()
        act()
        counts.append(sequence() - before)
    return counts


def test_a_small_object_takes_one_collective_and_a_grown_buffer_stays() -> None:
    for rank in run_ranks(count_collectives):
        assert rank.value == [1, 1, 1, 2, 1]


def meet_at_a_port(port: int) -> list[Any]:
    rank = int(os.environ["RANK"])
    ranks = core.DistributedContext(
        rank=rank, size=2, local_rank=rank, local_size=2, cross_rank=0, cross_size=1, pub_port=port
    )
    gathered = ranks.allgather(rank)
    listening = listening_addresses()
    ranks.allgather(None)  # no rank exits before all have looked
    return [gathered, listening]


def listening_addresses() -> list[str]:
    import psutil

    found = psutil.Process().net_connections(kind="inet")
    return sorted({c.laddr.ip for c in found if c.status == psutil.CONN_LISTEN})


def test_a_port_that_the_user_names_is_opened_on_loopback_only() -> None:
    for rank in run_ranks(meet_at_a_port, args=[free_port()], env={"MASTER_ADDR": None}):
        assert rank.value == [[0, 1], ["127.0.0.1"]]


def beside_the_default_group() -> list[Any]:
    from datetime import timedelta

    import torch.distributed as dist

    from determined.core.ranks.rendezvous import collective_timeout

    dist.init_process_group("gloo", timeout=timedelta(seconds=77))
    ranks = context()
    try:
        return [ranks.allgather(ranks.rank), collective_timeout().total_seconds()]
    finally:
        ranks.close()
        dist.destroy_process_group()


def test_the_default_group_gives_its_store_and_its_timeout() -> None:
    for rank in run_ranks(beside_the_default_group, env={"DET_COLLECTIVE_TIMEOUT": "5"}):
        assert rank.value == [[0, 1], 77.0]


def test_the_timeout_can_be_set_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    from determined.core.ranks.rendezvous import collective_timeout

    monkeypatch.setenv("DET_COLLECTIVE_TIMEOUT", "12.5")
    assert collective_timeout().total_seconds() == 12.5
    for bad in ("soon", "0", "-1", "nan"):
        monkeypatch.setenv("DET_COLLECTIVE_TIMEOUT", bad)
        with pytest.raises(ValueError, match="DET_COLLECTIVE_TIMEOUT"):
            collective_timeout()


def failures_travel() -> list[str]:
    ranks = context()
    said = []
    try:
        ranks.allgather((lambda: 0) if ranks.rank == 1 else "fine")
    except (DistributedError, pickle.PicklingError, AttributeError) as error:
        said.append(f"{type(error).__name__}: {error}")
    said.append(str(ranks.allgather(ranks.rank)))  # the group itself is not damaged
    try:
        ranks.allgather(1) if ranks.rank == 0 else ranks.broadcast(1)
    except DistributedError as error:
        said.append(str(error))
    return said


def test_an_object_that_cannot_be_sent_and_ranks_out_of_step() -> None:
    first, second = (rank.value for rank in run_ranks(failures_travel))
    assert first[0].startswith("DistributedError: rank 1")
    assert not second[0].startswith("DistributedError")
    assert first[1] == second[1] == "[0, 1]"
    assert "rank 0 called allgather, rank 1 called broadcast" in first[2]
    assert first[2] == second[2]


def one_after_the_other() -> int:
    for number in range(10):
        ranks = context()
        assert ranks.allgather(number) == [number, number]
        ranks.close()
    return number


def test_contexts_one_after_the_other_meet_each_time() -> None:
    assert [rank.value for rank in run_ranks(one_after_the_other)] == [9, 9]


def leave_without_closing() -> None:
    context().allgather("bye")


def test_a_context_that_is_never_closed_does_no_harm_at_exit() -> None:
    for _ in range(3):
        run_ranks(leave_without_closing)


def lose(rank: int, how: int) -> None:
    ranks = context()
    ranks.allgather("all here")
    if ranks.rank == rank:
        os.kill(os.getpid(), how)
    ranks.allgather("still here?")


@pytest.mark.parametrize(
    ("lost", "how"),
    [
        (0, signal.SIGKILL),
        (1, signal.SIGKILL),
        (0, signal.SIGSTOP),
        pytest.param(1, signal.SIGSTOP, marks=pytest.mark.thorough),
    ],
)
def test_a_lost_rank_is_named(lost: int, how: signal.Signals) -> None:
    ranks = start_ranks(lose, args=[lost, int(how)], env={"DET_COLLECTIVE_TIMEOUT": "3"})
    survivor = ranks.processes[1 - lost]
    try:
        survivor.wait(timeout=40)
    finally:
        ranks.kill()
    result = ranks.wait()[1 - lost]
    assert result.returncode == 1
    assert "DistributedError" in result.stderr
    assert f"rank {lost}" in result.stderr.strip().splitlines()[-1]


def threads_of_one_process() -> list[Any]:
    from concurrent.futures import ThreadPoolExecutor

    port = free_port()

    def one(rank: int) -> list[Any]:
        ranks = core.DistributedContext(
            rank=rank, size=2, local_rank=rank, local_size=2, cross_rank=0, cross_size=1, pub_port=port
        )
        return [ranks.allgather(rank), ranks.broadcast(rank)]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(2)))


def test_ranks_may_be_threads() -> None:
    (only,) = run_ranks(threads_of_one_process, n=1, env={"MASTER_ADDR": None})
    assert only.value == [[[0, 1], 0], [[0, 1], 0]]


def test_torch_is_loaded_at_the_first_collective_only() -> None:
    program = (
        "import sys\nfrom determined import core\n"
        "c = core.DistributedContext(rank=0, size=2, local_rank=0, local_size=2, cross_rank=0, cross_size=1)\n"
        "c.close()\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
