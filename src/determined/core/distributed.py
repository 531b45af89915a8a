"""`DistributedContext`: the rank of this process, and collectives among the ranks of a job."""

from __future__ import annotations

import importlib
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from determined.core.ranks.launcher_environment import (
    PUB_PORT,
    PULL_PORT,
    DefaultPort,
    checked_ranks,
    port_from_env,
    read_env,
    read_tf_config,
)
from determined.core.ranks.rendezvous import LOOPBACK, find_store
from determined.errors import MissingExtraError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from determined.core.ranks.object_group import ObjectGroup


class DistributedContext:
    """The ranks of one job, and collectives over Python objects among them.

    Intended for control data and small values; use `torch.distributed` for tensors. Objects are pickled and sent over a
    gloo group that is created at the first collective: beside the default process group if there is one, else through
    the chief's `pub_port` if it was given, else through the launcher's store. All ranks must make the same calls in the
    same order. `pull_port`, `port_offset` and `force_tcp` belong to an older transport and are accepted without effect.
    """

    def __init__(
        self,
        *,
        rank: int | None = None,
        size: int | None = None,
        local_rank: int | None = None,
        local_size: int | None = None,
        cross_rank: int | None = None,
        cross_size: int | None = None,
        chief_ip: str | None = None,
        pub_port: int = PUB_PORT,
        pull_port: int = PULL_PORT,
        port_offset: int = 0,
        force_tcp: bool = False,
    ) -> None:
        ranks = checked_ranks(
            {
                "rank": rank,
                "size": size,
                "local_rank": local_rank,
                "local_size": local_size,
                "cross_rank": cross_rank,
                "cross_size": cross_size,
            }
        )
        self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size = ranks
        if self.local_size == self.size:
            chief_ip = LOOPBACK  # no other address: other hosts must not reach a port over which pickles are sent
        elif chief_ip is None:
            raise AssertionError(
                f"chief_ip is required: only {self.local_size} of {self.size} ranks are on this node, "
                "the others need the chief's address"
            )
        self._chief_ip = chief_ip
        self._port = None if isinstance(pub_port, DefaultPort) else pub_port
        self._world: ObjectGroup | None = None
        self._node: ObjectGroup | None = None
        if self.size == 1:
            return
        from determined.core.ranks.object_group import ObjectGroup  # here: most programs have one rank

        self._world = ObjectGroup(
            name="world",
            rank=self.rank,
            members=range(self.size),
            on_one_node=self.local_size == self.size,
            find_store=self._find_store,
        )
        if self.local_size == self.size:
            self._node = self._world
        elif self.local_size > 1:
            # Launchers number the ranks of a node consecutively; only then is this the first one.
            first = self.rank - self.local_rank
            self._node = ObjectGroup(
                name=f"node-{self.cross_rank}",
                rank=self.local_rank,
                members=range(first, first + self.local_size),
                on_one_node=True,
                find_store=self._find_store,
            )

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """Create the context from the environment variables of torchrun or a compatible launcher."""
        return cls._from_env(
            "torchrun",
            ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"],
            chief_ip,
        )

    @classmethod
    def from_deepspeed(cls, chief_ip: str | None = None) -> DistributedContext:
        """Create the context from the environment variables of DeepSpeed's launcher."""
        return cls._from_env(
            "the deepspeed launcher",
            ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"],
            chief_ip,
        )

    @classmethod
    def from_horovod(cls, hvd: Any, chief_ip: str | None = None) -> DistributedContext:
        """Create the context from an initialized `horovod.torch` module or an object with the same functions."""
        # Horovod itself has these functions, but other modules with the same interface may lack them.
        if hasattr(hvd, "cross_rank") and hasattr(hvd, "cross_size"):
            cross_rank, cross_size = hvd.cross_rank(), hvd.cross_size()
        else:
            cross_rank, cross_size = read_env("horovodrun", ["HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE"])
        return cls(
            rank=hvd.rank(),
            size=hvd.size(),
            local_rank=hvd.local_rank(),
            local_size=hvd.local_size(),
            cross_rank=cross_rank,
            cross_size=cross_size,
            chief_ip=chief_ip or os.environ.get("DET_CHIEF_IP"),
            pub_port=port_from_env(),
        )

    @classmethod
    def from_tf_config(cls) -> tuple[DistributedContext, Any]:
        """Create the context from $TF_CONFIG, and return it with the matching `tf.distribute.Strategy`."""
        rank, addresses = read_tf_config(os.environ)
        try:
            tf: Any = importlib.import_module("tensorflow")
        except ModuleNotFoundError as error:
            raise MissingExtraError("DistributedContext.from_tf_config needs: pip install tensorflow") from error
        strategy: Any
        if len(addresses) > 1:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
        elif len(tf.config.list_physical_devices("GPU")) > 1:
            strategy = tf.distribute.MirroredStrategy()
        else:
            strategy = tf.distribute.get_strategy()
        context = cls(
            rank=rank,
            size=len(addresses),
            local_rank=0,
            local_size=1,
            cross_rank=rank,
            cross_size=len(addresses),
            chief_ip=addresses[0].rpartition(":")[0],
            pub_port=port_from_env(),
        )
        return context, strategy

    @classmethod
    def _from_env(cls, launcher: str, names: list[str], chief_ip: str | None) -> DistributedContext:
        """Create the context from the six named environment variables."""
        rank, size, local_rank, local_size, cross_rank, cross_size = read_env(launcher, names)
        return cls(
            rank=rank,
            size=size,
            local_rank=local_rank,
            local_size=local_size,
            cross_rank=cross_rank,
            cross_size=cross_size,
            chief_ip=chief_ip or os.environ.get("DET_CHIEF_IP"),
            pub_port=port_from_env(),
        )

    def get_rank(self) -> int:
        """Return the rank of this process among all processes; 0 is the chief."""
        return self.rank

    def get_local_rank(self) -> int:
        """Return the rank of this process among those of its machine."""
        return self.local_rank

    def get_size(self) -> int:
        """Return the number of processes."""
        return self.size

    def get_num_agents(self) -> int:
        """Return the number of machines."""
        return self.cross_size

    def allgather(self, stuff: Any) -> list[Any]:
        """Return the objects of all ranks, in rank order, on every rank."""
        return [stuff] if self._world is None else self._world.allgather(stuff)

    def gather(self, stuff: Any) -> list[Any] | None:
        """Return the objects of all ranks, in rank order, on the chief; None on other ranks.

        All ranks wait for each other.
        """
        return [stuff] if self._world is None else self._world.gather(stuff)

    def broadcast(self, stuff: Any) -> Any:
        """Return the chief's object on every rank."""
        return stuff if self._world is None else self._world.broadcast(stuff)

    def allgather_local(self, stuff: Any) -> list[Any]:
        """Like `allgather`, among the ranks of this node."""
        return [stuff] if self._node is None else self._node.allgather(stuff)

    def gather_local(self, stuff: Any) -> list[Any] | None:
        """Like `gather`, among the ranks of this node, to its local chief."""
        return [stuff] if self._node is None else self._node.gather(stuff)

    def broadcast_local(self, stuff: Any = None) -> Any:
        """Like `broadcast`, among the ranks of this node, from its local chief."""
        return stuff if self._node is None else self._node.broadcast(stuff)

    def close(self) -> None:
        """Release the groups of the collectives. Further calls have no effect."""
        # The group of the node first; it may be the same object, and closing it twice has no effect.
        for group in (self._node, self._world):
            if group is not None:
                group.close()

    def _find_store(self, timeout: timedelta) -> Store:
        """Return the torch store through which the ranks of this job meet."""
        return find_store(self.rank, self.size, chief_ip=self._chief_ip, port=self._port, timeout=timeout)


class DummyDistributedContext(DistributedContext):
    """The context of a job with one rank."""

    def __init__(self) -> None:
        super().__init__()


def describe_failure(distributed: DistributedContext, what: str, error: RuntimeError) -> str:
    """Return a description of a failed torch collective with the ranks that are missing.

    Called by each surviving rank: ranks that do not call it are reported as missing.
    """
    group = distributed._world
    return f"{what} failed: {error}" if group is None else group.describe_failure(what, error)


def shared_store(distributed: DistributedContext) -> Store | None:
    """Return a torch store with a separate key prefix that all ranks of the job share; None for a single rank."""
    return None if distributed._world is None else distributed._world.shared_store()
