"""The queue daemon: runs the queued experiments, as many at once as the slots of this machine allow."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TypeVar

from determined.config.secrets.line_mask import line_mask
from determined.config.stored import StoredConfig
from determined.engines.slots import Slots
from determined.errors import DeterminedError, ExperimentHeld, StoreError, StoreUnavailable
from determined.plural import counted
from determined.queue.daemon_store import DaemonStore
from determined.queue.files import QueueFiles, at_the_door
from determined.queue.liveness import last_words
from determined.queue.restart_backoff import RestartBackoff
from determined.queue.runner_process import QueueRunner
from determined.queue.schedule import Demand
from determined.queue.slot_demand import SlotDemand, needs_of
from determined.queue.slot_shares import SlotShares
from determined.queue.status import Status, write_status
from determined.queue.submission import has_files_here
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.experiment_records import Experiment, Holder
from determined.store.process import is_running, on_this_machine, this_process, this_user
from determined.store.queue import LOWEST_PRIORITY, Entry
from determined.store.states import EXPERIMENT_ENDED
from determined.store.store import Store

T = TypeVar("T")

_TICK = 0.5
_SHORT_PAUSE = 5.0  # a retry within this time keeps its slots
_MOST_SECONDS_WITHOUT_SLOTS = 60.0  # after that an idle runner is ended, because its imports take up memory
_SHORT_WATCH = 3.0  # a live runner sends a heartbeat about once a second
_SECONDS_BETWEEN_LOOKS = 2.0  # between checks of an experiment that another process runs
_WRONG = (DeterminedError, OSError, ValueError, TypeError, LookupError)  # raised when files of an experiment are broken


class Daemon:
    """The event loop of the daemon, in one thread. Between two ticks it waits for messages of the runners."""

    def __init__(
        self,
        store_place: str,
        files: QueueFiles,
        lock: int,
        *,
        slots: Slots,
        idle_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._store_place, self._files = store_place, files
        self._lock: int | None = lock
        self._slots, self._idle_seconds, self._say = slots.count, idle_seconds, say
        self._shares = SlotShares(slots, store_place)
        self._waited_for: list[str] = []  # experiments outside the queue that hold slots, as last logged
        self._host, self._owner = socket.gethostname(), this_user()
        self._store = DaemonStore(store_place, say)
        self._entries: list[Entry] = []
        self._needs: dict[int, SlotDemand] = {}  # by the order of the entry, like the following
        self._runners: dict[int, QueueRunner] = {}
        self._retries = RestartBackoff()
        self._held: set[int] = set()  # entries that other processes run, which was logged once
        self._has_begun = False
        self._selector = selectors.DefaultSelector()
        self._signal: int | None = None
        self._since, self._busy = time.time(), time.monotonic()
        self._status: Status | None = None
        self._is_unseen = False

    def run(self) -> int:
        """Serve the queue until it has been empty for a while or a signal arrives. Return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup det queue serve` outlives its terminal
                signal.signal(number, self._take_signal)
        try:
            self._store.open()  # outside `_try`: fail at once if the store cannot be opened
            self._say(f"process {os.getpid()} shares out {counted(self._slots, 'slot')}")
            while self._signal is None:
                if self._store.is_another_file():
                    self._begin_anew()
                self._try(self._look_at_queue)
                if self._has_begun or self._try(self._begins):
                    self._share_out()
                self._show()
                if self._is_idle() and self._try(self._ends) is True:
                    self._say("nothing is left to do")
                    return 0
                self._listen()
            self._let_go()
            return 128 + self._signal
        finally:
            self._unlock()

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        """Remember a signal. The loop handles it within one tick."""
        self._signal = number

    def _try(self, act: Callable[[Store], T]) -> T | None:
        """Run an action on the store; return None while the store is unavailable.

        As long as runners are alive there is no time limit, because they wait for the store as well.
        """
        return self._store.ask(act, for_ever=bool(self._runners))

    def _begin_anew(self) -> None:
        """Reset after the store file was replaced, and let the runners pause.

        They belong to the old store, and in the new one their ids refer to other experiments.
        """
        self._say(f"the store {self._store_place} is another file now: it is read anew")
        self._store.take_new_file()
        for runner in self._runners.values():
            self._stop_listening(runner)
            runner.let_go()
        self._entries, self._needs, self._held, self._retries = [], {}, set(), RestartBackoff()

    def _look_at_queue(self, store: Store) -> None:
        """Handle runners that exited, and read the entries of the queue."""
        for order, runner in list(self._runners.items()):
            code = runner.ended()
            if code is not None:
                self._after(store, runner, code)
                del self._runners[order]
        entries = store.queue.entries(self._host, self._owner)
        self._entries = [entry for entry in entries if self._can_run(store, entry)]
        present = {entry.order for entry in entries} | set(self._runners)
        self._needs = {order: needs for order, needs in self._needs.items() if order in present}
        self._held &= present
        self._retries.forget_others_than(present)

    def _can_run(self, store: Store, entry: Entry) -> bool:
        """Return whether an entry can run here.

        Otherwise it is removed from the queue, unless its files belong elsewhere.
        """
        with self._giving_up(store, entry):
            if entry.order not in self._needs:
                experiment = _experiment(store, entry)
                if experiment is None:
                    return False
                self._needs[entry.order] = needs_of(
                    StoredConfig(experiment.config), min(self._slots, entry.slots or self._slots)
                )
            wanted = self._needs[entry.order].slots_per_trial
            if wanted <= self._slots:
                return True
            self._give_up(store, entry, f"a trial wants {counted(wanted, 'slot')}, and the queue has {self._slots}")
        return False

    def _begins(self, store: Store) -> bool:
        """Return whether slots can be assigned: runners of a killed daemon may still be saving on some of them."""
        for entry in self._entries:
            with self._giving_up(store, entry):
                experiment = _experiment(store, entry)
                if experiment is not None and experiment.holder is not None and is_running(experiment.holder.process):
                    self._wait_for(entry, experiment.holder)
                    return False
        self._has_begun = True
        return True

    def _wait_for(self, entry: Entry, holder: Holder) -> None:
        """Log once that another process runs the experiment, and check again a little later."""
        if entry.order not in self._held:
            self._held.add(entry.order)
            process = holder.process
            self._say(
                f"experiment {entry.experiment_id}: process {process.pid} on {process.host} still runs it; "
                "it is waited for"
            )
        self._retries.rest(entry.order, _SECONDS_BETWEEN_LOOKS)

    def _after(self, store: Store, runner: QueueRunner, code: int) -> None:
        """Handle the exit of a runner: retry, wait for another holder, or give up.

        A runner removes an experiment that it has finished from the queue, so one that is still queued is continued.
        """
        entry = runner.entry
        number = entry.experiment_id
        if runner.connection.fileno() >= 0:
            self._stop_listening(runner)
            runner.connection.close()
        known = store.queue.find(number)
        if known is None or known.order != entry.order:
            self._say(f"experiment {number}: done")
            return
        experiment = store.experiments.get(number)
        state, holder = experiment.state, experiment.holder
        # The runner was killed after it committed this state, before it removed the experiment from the queue.
        if state in ("PAUSED", *EXPERIMENT_ENDED):
            store.queue.remove(number)
            self._say(f"experiment {number}: {state}")
            return
        if runner.is_let_go:
            return
        if holder is not None and _is_alive(holder, runner.holder_before):
            self._wait_for(entry, holder)
            return
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        pause = self._retries.failed(entry.order, time.monotonic() - runner.started)
        if pause is not None:
            self._say(f"experiment {number}: its runner ended {how}; it is started again in {pause:g} s")
            return
        times, said = self._retries.failures(entry.order), last_words(experiment, lines=1)
        reason = f"its runner ended {counted(times, 'time')} in a row, the last time {how}"
        self._give_up(store, entry, f"{reason}: {said}" if said else reason)

    @contextmanager
    def _giving_up(self, store: Store, entry: Entry) -> Iterator[None]:
        """Remove an experiment from the queue if the block raises, so that its error does not end the daemon."""
        try:
            yield
        except StoreUnavailable:
            raise
        except _WRONG as error:
            kind = "" if isinstance(error, DeterminedError) else f"{type(error).__name__}: "
            self._give_up(store, entry, f"it cannot be run: {kind}{error}")

    def _give_up(self, store: Store, entry: Entry, reason: str) -> None:
        """Pause an experiment with the reason and remove it from the queue, unless another process runs it."""
        if self._is_waited_for(entry):
            return
        number = entry.experiment_id
        try:
            lease = store.experiments.acquire(number, this_process(), watch_seconds=_SHORT_WATCH)
        except ExperimentHeld:
            holder = store.experiments.get(number).holder
            if holder is not None:
                self._wait_for(entry, holder)
            return
        try:
            reason = line_mask(os.environ)(reason)  # an error message may contain a URL with a password
            change = ExperimentChange(state="PAUSED", reason=reason)
            store.experiments.commit(lease, Change(experiment=change))
            store.queue.remove(number)
        finally:
            store.experiments.release(lease)
        self._say(f"experiment {number}: taken out of the queue: {reason}")

    def _share_out(self) -> None:
        """Assign the slots: update the grants of runners, release idle runners, and start new ones."""
        demands = []
        leaving = {runner.entry.experiment_id for runner in self._runners.values()}
        for entry in self._entries:
            runner = self._runners.get(entry.order)
            rests = self._retries.pause(entry.order) > _SHORT_PAUSE or self._is_waited_for(entry)
            if runner is None and (rests or entry.experiment_id in leaving):
                continue
            demands.append(self._demand(entry, runner))
        listed = {entry.order for entry in self._entries}
        for order, runner in self._runners.items():
            if order not in listed:  # removed from the queue and about to exit, but its slots are not free yet
                demands.append(Demand(order, LOWEST_PRIORITY, 1, 0, runner.has))
        by_order = {runner.entry.order: runner.entry.experiment_id for runner in self._runners.values()}
        by_order |= {entry.order: entry.experiment_id for entry in self._entries}
        shares = self._shares.give(demands, by_order)
        self._tell_what_is_waited_for()
        for order, runner in self._runners.items():
            runner.grant(shares[order])
            if not runner.is_let_go and runner.seconds_without_slots() > _MOST_SECONDS_WITHOUT_SLOTS:
                self._say(f"experiment {runner.entry.experiment_id}: waits for slots without a process")
                self._stop_listening(runner)
                runner.let_go()
        for entry in self._entries:
            due = entry.order not in self._runners and self._retries.pause(entry.order) <= 0
            if due and shares.get(entry.order):
                self._try(partial(self._start, entry, shares[entry.order]))

    def _tell_what_is_waited_for(self) -> None:
        """Log which experiments outside the queue hold slots, if that has changed."""
        holders = self._shares.holders() if self._shares.unavailable else []
        if holders and holders != self._waited_for:
            self._say(f"slots are held outside the queue, by {' and '.join(holders)}: waiting for them")
        self._waited_for = holders

    def _is_waited_for(self, entry: Entry) -> bool:
        return entry.order in self._held and self._retries.pause(entry.order) > 0

    def _demand(self, entry: Entry, runner: QueueRunner | None) -> Demand:
        """Return the demand of an entry: as reported by its runner, or else estimated from its configuration."""
        needs = self._needs[entry.order]
        wants = needs.wants if runner is None or runner.wants is None else runner.wants
        has = () if runner is None else runner.has
        return Demand(entry.order, entry.priority, needs.slots_per_trial, wants, has)

    def _start(self, entry: Entry, slots: tuple[int, ...], store: Store) -> None:
        """Start a runner for an entry."""
        with self._giving_up(store, entry):
            experiment = _experiment(store, entry)
            if experiment is None:
                if store.queue.find(entry.experiment_id) is not None:
                    self._give_up(store, entry, "its files are not here any more")
                return
            if experiment.holder is not None and is_running(experiment.holder.process):
                self._wait_for(entry, experiment.holder)
                return
            try:
                runner = QueueRunner(entry, experiment, self._store_place, self._slots)
            except OSError as error:  # for example the limit on processes
                pause = self._retries.failed(entry.order, 0.0)
                if pause is None:
                    self._give_up(store, entry, f"no process could be started for it: {error}")
                return
            self._has_started(entry, runner, slots)

    def _has_started(self, entry: Entry, runner: QueueRunner, slots: tuple[int, ...]) -> None:
        """Register a new runner and send its first grant."""
        self._held.discard(entry.order)
        self._runners[entry.order] = runner
        self._selector.register(runner.connection, selectors.EVENT_READ, runner)
        runner.grant(slots)
        self._say(f"experiment {entry.experiment_id}: process {runner.pid} runs it")

    def _listen(self) -> None:
        """Wait up to one tick for messages of the runners, and read them."""
        for key, _ in self._selector.select(_TICK):
            runner: QueueRunner = key.data
            if not runner.read():
                self._stop_listening(runner)

    def _stop_listening(self, runner: QueueRunner) -> None:
        if runner.connection in self._selector.get_map():
            self._selector.unregister(runner.connection)

    def _is_idle(self) -> bool:
        if self._entries or self._runners or self._store.is_away:
            self._busy = time.monotonic()
            return False
        return time.monotonic() - self._busy >= self._idle_seconds

    def _ends(self, store: Store) -> bool:
        """Check the queue for the last time and give up the daemon's lock, while no process can look for a daemon.

        Return False if there is work after all.
        """
        with at_the_door(self._files):
            if self._store.is_another_file():
                return False
            left = store.queue.entries(self._host, self._owner)
            if any(_experiment(store, entry) is not None for entry in left):
                return False
            self._unlock()
            return True

    def _unlock(self) -> None:
        """Delete the status file and release the daemon's lock. Afterwards another process may become the daemon."""
        if self._lock is not None:
            self._files.status.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
            self._shares.close()

    def _let_go(self) -> None:
        """Let all runners pause and wait for them; their experiments stay in the queue.

        A second signal ends the wait.
        """
        assert self._signal is not None
        name, self._signal = signal.Signals(self._signal), None
        self._show(leaving=True)
        self._say(f"{name.name}: {counted(len(self._runners), 'runner')} asked to save their trials")
        for runner in self._runners.values():
            self._stop_listening(runner)
            runner.let_go()
        while self._runners and self._signal is None:
            for order, runner in list(self._runners.items()):
                if runner.wait(0.1):
                    del self._runners[order]
            self._show(leaving=True)
        self._signal = name

    def _show(self, *, leaving: bool = False) -> None:
        """Write the status file if the status has changed."""
        running = {runner.entry.experiment_id: sorted(runner.has) for runner in self._runners.values()}
        status = Status(os.getpid(), self._since, self._slots, running, leaving)
        if status == self._status:
            return
        try:
            write_status(self._files, status)
        except OSError as error:  # for example a full disk; retried at the next tick
            if not self._is_unseen:
                self._say(f"what `det queue` shows could not be written: {error}")
            self._is_unseen = True
        else:
            self._status, self._is_unseen = status, False


def _is_alive(holder: Holder, before: Holder | None) -> bool:
    """Return whether the holder of a lease is alive.

    A process on another host cannot be checked: it counts as alive if it has renewed the lease since the runner
    started.
    """
    return is_running(holder.process) or (not on_this_machine(holder.process) and holder != before)


def _experiment(store: Store, entry: Entry) -> Experiment | None:
    """Return the experiment of an entry; None if it was just deleted.

    None also if its files are not here: then the user has another data directory, which has another daemon.
    """
    try:
        experiment = store.experiments.get(entry.experiment_id)
    except StoreError:
        if store.queue.find(entry.experiment_id) is None:
            return None
        raise
    return experiment if has_files_here(experiment) else None
