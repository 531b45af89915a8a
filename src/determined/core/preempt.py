"""`PreemptContext`: check whether this run was asked to stop."""

from __future__ import annotations

import enum
from types import TracebackType

from determined.core.distributed import DistributedContext
from determined.core.supervision.supervisor import Supervisor
from determined.stop_request import StopRequest


class PreemptMode(enum.Enum):
    """Which ranks may call `should_preempt`, and where they get the answer from."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class PreemptContext:
    """Tells whether this run should save and exit. Once requested, a stop stays requested; `reason` gives its kind."""

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
        """Enable `should_preempt`; `core.init` calls this."""
        if self._started:
            raise RuntimeError("this PreemptContext was started already")
        self._started = True
        return self

    def close(self) -> None:
        """Do nothing: there is nothing to release. May be called repeatedly."""

    def __enter__(self) -> PreemptContext:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    @property
    def reason(self) -> str | None:
        """Why this run should stop, as far as this rank knows (pause, cancel, stop or reschedule), or None."""
        return self._reason

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """Return whether to save and exit now.

        In the default mode all ranks call this in step and get the same answer.
        """
        if not self._started:
            raise RuntimeError(
                "should_preempt() was called before start(): call it inside `with core.init()`, or after start()"
            )
        rank = self._distributed.rank
        if self._mode is PreemptMode.WorkersAskChief:
            # One decision for all ranks: if each read its own state, some could stop a batch earlier than others and
            # leave those in a collective.
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
        """Return whether this process knows of a stop request, without communicating with other ranks."""
        return self._own_reason() is not None

    def request(self, reason: StopRequest = "pause") -> None:
        """Request a stop of this run from inside. Safe in a signal handler; the first reason is kept."""
        # Runs in signal handlers, so it takes no lock and writes nothing.
        self._supervisor.request_stop(reason)

    def acknowledge_preemption_signal(self) -> None:
        """Record that this run will exit although it is not finished."""
        self._acknowledged = True
        self._supervisor.acknowledge_stop()

    def _own_reason(self) -> str | None:
        """Return the reason of the stop request that this process knows of, or None."""
        if self._reason is not None:
            return self._reason
        # By default only the chief reads requests; in this mode every rank has to read them itself.
        if self._mode is PreemptMode.WorkersAskMaster:
            self._supervisor.listen()
        return self._supervisor.stop_requested()
