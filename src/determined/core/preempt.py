"""`PreemptContext`: whether somebody wants this run to stop soon."""

from __future__ import annotations

import enum
from types import TracebackType

from determined.core.distributed import DistributedContext
from determined.core.supervisor import StopReason, Supervisor


class PreemptMode(enum.Enum):
    """Who may ask, and who answers."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class PreemptContext:
    """Once the answer was yes, it stays yes, and `reason` says why: pause, cancel, stop or reschedule."""

    def __init__(
        self,
        distributed: DistributedContext,
        supervisor: Supervisor,
        mode: PreemptMode = PreemptMode.WorkersAskChief,
    ) -> None:
        self._distributed = distributed
        self._supervisor = supervisor
        self._mode = mode
        self._started = False
        self._acknowledged = False
        self._reason: str | None = None

    def start(self) -> PreemptContext:
        """Begin to listen for requests; `core.init` does so."""
        if self._started:
            raise RuntimeError("this PreemptContext was started already")
        self._started = True
        return self

    def close(self) -> None:
        """Nothing is left running; calling it again does nothing."""

    def __enter__(self) -> PreemptContext:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    @property
    def reason(self) -> str | None:
        """Why this run shall stop, as far as this rank was told; None as long as it need not."""
        return self._reason

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """Whether to save and exit now; in the default mode all ranks ask in step and get the same answer."""
        if not self._started:
            raise RuntimeError(
                "should_preempt() was called before start(): call it inside `with core.init()`, or after start()"
            )
        rank = self._distributed.rank
        if self._mode is PreemptMode.WorkersAskChief:
            self._reason = self._distributed.broadcast(self._own_reason() if rank == 0 else None)
        elif self._mode is PreemptMode.ChiefOnly and rank != 0:
            raise RuntimeError(
                f"with PreemptMode.ChiefOnly only the chief may call should_preempt(), this is rank {rank}"
            )
        else:
            self._reason = self._own_reason()
        if self._reason is not None and auto_ack and not self._acknowledged:
            self.acknowledge_preemption_signal()
        return self._reason is not None

    def pending(self) -> bool:
        """What this process knows by itself, without asking other ranks."""
        return self._own_reason() is not None

    def request(self, reason: StopReason = "pause") -> None:
        """Ask this run to stop from inside; safe in a signal handler. The first reason stays."""
        self._supervisor.request_stop(reason)

    def acknowledge_preemption_signal(self) -> None:
        """Say that this run will exit although it is not finished."""
        self._acknowledged = True
        self._supervisor.acknowledge_stop()

    def _own_reason(self) -> str | None:
        if self._reason is not None:
            return self._reason
        if self._mode is PreemptMode.WorkersAskMaster:
            self._supervisor.listen()
        request = self._supervisor.stop_requested()
        return None if request is None else request.reason
