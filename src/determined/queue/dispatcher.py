"""`Dispatcher`: starts a runner for each queued experiment, assigns slots to them, and handles their exits."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from determined.config.secrets.line_mask import line_mask
from determined.config.stored import StoredConfig
from determined.engines.slots import Slots
from determined.errors import DeterminedError, ExperimentHeld, StoreError, StoreUnavailable
from determined.queue.daemon_store import DaemonStore
from determined.queue.liveness import is_holder_alive, last_runner_output
from determined.queue.restart_backoff import RestartBackoff
from determined.queue.runner_process import QueueRunner
from determined.queue.schedule import Demand
from determined.queue.slot_assignment import SlotAssignment
from determined.queue.slot_demand import SlotDemand, slot_demand_of
from determined.queue.submission import has_files_here
from determined.sentences import counted
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.experiment_records import Experiment, Holder
from determined.store.process import is_running, this_process, this_user
from determined.store.states import EXPERIMENT_ENDED
from determined.store.store import Store
from determined.store.substores.queue import LOWEST_PRIORITY, Entry

T = TypeVar("T")

_SHORT_PAUSE = 5.0  # a retry within this time keeps its slots
_MOST_SECONDS_WITHOUT_SLOTS = 60.0  # after that an idle runner is ended, because its imports take up memory
_SHORT_WATCH = 3.0  # a live runner sends a heartbeat about once a second
_SECONDS_BETWEEN_CHECKS = 2.0  # between checks of an experiment that another process runs
# Raised when files of an experiment are broken. They must not end the daemon, which serves other experiments as well.
_BROKEN_EXPERIMENT = (DeterminedError, OSError, ValueError, TypeError, LookupError)


class Dispatcher:
    """The queued experiments of one user on this machine, and their runners. Used by one thread.

    Dictionaries are keyed by the order of the queue entry, which is never reused: an experiment that is removed from
    the queue and added again is a new entry, while the runner of the old one may still be exiting.
    """

    def __init__(self, store_place: str, store: DaemonStore, slots: Slots, say: Callable[[str], None]) -> None:
        self._store_place, self._store, self._say = store_place, store, say
        self._slots = slots.count
        self._assignment = SlotAssignment(slots, store_place)
        self._slot_holders: list[str] = []  # experiments outside the queue that hold slots, as last logged
        self._host, self._owner = socket.gethostname(), this_user()
        self._entries: list[Entry] = []
        self._demands: dict[int, SlotDemand] = {}
        self._runners: dict[int, QueueRunner] = {}
        self._retries = RestartBackoff()
        self._held_elsewhere: set[int] = set()  # entries that other processes run, which was logged once
        self._may_assign_slots = False
        self._selector = selectors.DefaultSelector()

    @property
    def is_empty(self) -> bool:
        """Whether no experiment is queued and no runner is left."""
        return not self._entries and not self._runners

    @property
    def runner_count(self) -> int:
        """The number of runners that have not exited."""
        return len(self._runners)

    def running(self) -> dict[int, list[int]]:
        """Return the slots of each experiment that has a runner."""
        return {runner.entry.experiment_id: sorted(runner.has) for runner in self._runners.values()}

    def update(self) -> None:
        """Handle exits, read the queue, and assign slots; do what is possible while the store is unavailable."""
        self._query(self._read_queue)
        # Runners of a killed daemon only exit and none is added, so this is checked only until then.
        if self._may_assign_slots or self._query(self._check_old_runners):
            self._assign_slots()

    def wait_for_messages(self, seconds: float) -> None:
        """Wait up to this time for messages of the runners, and read them."""
        for key, _ in self._selector.select(seconds):
            runner: QueueRunner = key.data
            if not runner.read():
                # A closed connection is readable in every round and would keep the loop busy.
                self._stop_listening(runner)

    def has_work(self, store: Store) -> bool:
        """Return whether the queue in the store has an experiment for this machine, with a new query."""
        left = store.queue.entries(self._host, self._owner)
        return any(_experiment(store, entry) is not None for entry in left)

    def reset(self) -> None:
        """Forget the queue after the store file was replaced, and let the runners pause.

        The runners belong to the old store, and in the new one their ids refer to other experiments.
        """
        self.pause_all()
        self._entries, self._demands, self._held_elsewhere, self._retries = [], {}, set(), RestartBackoff()

    def pause_all(self) -> None:
        """Ask all runners to pause: their trials save, and the experiments stay in the queue."""
        for runner in self._runners.values():
            self._ask_to_pause(runner)

    def wait_for_exits(self) -> None:
        """Wait a moment for each runner to exit, and forget those that did."""
        for order, runner in list(self._runners.items()):
            # Short, because runners exit in any order.
            if runner.wait(0.1):
                del self._runners[order]

    def close(self) -> None:
        """Release the locks on all slots."""
        self._assignment.close()

    def _query(self, act: Callable[[Store], T]) -> T | None:
        """Run an action on the store; return None while the store is unavailable.

        As long as runners are alive there is no time limit, because they wait for the store as well.
        """
        return self._store.query(act, without_limit=bool(self._runners))

    # Reading the queue

    def _read_queue(self, store: Store) -> None:
        """Handle runners that exited, and read the entries of the queue."""
        for order, runner in list(self._runners.items()):
            code = runner.ended()
            if code is not None:
                # Handled before the queue is read: an experiment that ended is no longer in it.
                self._handle_exit(store, runner, code)
                del self._runners[order]
        entries = store.queue.entries(self._host, self._owner)
        self._entries = [entry for entry in entries if self._can_run(store, entry)]
        present = {entry.order for entry in entries} | set(self._runners)
        self._demands = {order: demand for order, demand in self._demands.items() if order in present}
        self._held_elsewhere &= present
        # Entries that left the queue must not leave anything behind: a daemon may run for months.
        self._retries.keep_only(present)

    def _can_run(self, store: Store, entry: Entry) -> bool:
        """Return whether an entry can run here.

        Otherwise it is removed from the queue, unless its files belong elsewhere.
        """
        with self._removing_on_error(store, entry):
            if entry.order not in self._demands:
                experiment = _experiment(store, entry)
                if experiment is None:
                    return False
                # Never more than the machine has, or the experiment would wait forever.
                most = min(self._slots, entry.slots or self._slots)
                self._demands[entry.order] = slot_demand_of(StoredConfig(experiment.config), most)
            needed = self._demands[entry.order].slots_per_trial
            if needed <= self._slots:
                return True
            self._remove(store, entry, f"a trial needs {counted(needed, 'slot')}, but the queue has {self._slots}")
        return False

    def _check_old_runners(self, store: Store) -> bool:
        """Return whether slots can be assigned: runners of a killed daemon may still be saving on some of them."""
        for entry in self._entries:
            with self._removing_on_error(store, entry):
                experiment = _experiment(store, entry)
                if experiment is not None and experiment.holder is not None and is_running(experiment.holder.process):
                    # One such runner is enough: its slots are unknown to this daemon.
                    self._wait_for_holder(entry, experiment.holder)
                    return False
        self._may_assign_slots = True
        return True

    def _wait_for_holder(self, entry: Entry, holder: Holder) -> None:
        """Log once that another process runs the experiment, and check again a little later."""
        if entry.order not in self._held_elsewhere:
            self._held_elsewhere.add(entry.order)
            process = holder.process
            self._say(
                f"experiment {entry.experiment_id}: process {process.pid} on {process.host} still runs it; "
                "waiting for that process"
            )
        self._retries.delay(entry.order, _SECONDS_BETWEEN_CHECKS)

    def _waits_for_holder(self, entry: Entry) -> bool:
        """Return whether another process was found to run the experiment, and the next check is not due yet."""
        return entry.order in self._held_elsewhere and self._retries.seconds_left(entry.order) > 0

    # Exits and failures

    def _handle_exit(self, store: Store, runner: QueueRunner, code: int) -> None:
        """Handle the exit of a runner: retry, wait for another holder, or remove the experiment from the queue.

        A runner removes an experiment that it has finished from the queue, so one that is still queued is continued.
        """
        entry = runner.entry
        number = entry.experiment_id
        if runner.connection.fileno() >= 0:
            self._stop_listening(runner)
            runner.connection.close()
        known = store.queue.find(number)
        # Another entry means that the experiment was queued again, which is handled on its own.
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
        # It stays in the queue: the daemon is shutting down, or slots were taken from it.
        if runner.was_asked_to_pause:
            return
        if holder is not None and is_holder_alive(holder, runner.holder_before):
            self._wait_for_holder(entry, holder)
            return
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        # By its run time: a runner that worked for a while starts with the short pause again.
        pause = self._retries.failed(entry.order, time.monotonic() - runner.started)
        if pause is not None:
            self._say(f"experiment {number}: the runner ended {how}; starting it again in {pause:g} s")
            return
        times, output = self._retries.failures(entry.order), last_runner_output(experiment, lines=1)
        reason = f"the runner ended {counted(times, 'time')} in a row, the last time {how}"
        self._remove(store, entry, f"{reason}: {output}" if output else reason)

    @contextmanager
    def _removing_on_error(self, store: Store, entry: Entry) -> Iterator[None]:
        """Remove an experiment from the queue if the block raises, so that its error does not end the daemon."""
        try:
            yield
        # Not a fault of the experiment.
        except StoreUnavailable:
            raise
        except _BROKEN_EXPERIMENT as error:
            kind = "" if isinstance(error, DeterminedError) else f"{type(error).__name__}: "
            self._remove(store, entry, f"cannot be run: {kind}{error}")

    def _remove(self, store: Store, entry: Entry, reason: str) -> None:
        """Pause an experiment with the reason and remove it from the queue, unless another process runs it."""
        if self._waits_for_holder(entry):
            return
        number = entry.experiment_id
        try:
            lease = store.experiments.acquire(number, this_process(), watch_seconds=_SHORT_WATCH)
        except ExperimentHeld:
            holder = store.experiments.get(number).holder
            if holder is not None:
                self._wait_for_holder(entry, holder)
            return
        try:
            reason = line_mask(os.environ)(reason)  # an error message may contain a URL with a password
            change = ExperimentChange(state="PAUSED", reason=reason)
            # The state first: after a crash in between, the next daemon tries the experiment again. In the other order
            # the experiment would stay ACTIVE without a process that runs it.
            store.experiments.commit(lease, Change(experiment=change))
            store.queue.remove(number)
        finally:
            store.experiments.release(lease)
        self._say(f"experiment {number}: removed from the queue: {reason}")

    # Slots and runners

    def _assign_slots(self) -> None:
        """Assign the slots: update the grants of runners, end idle runners, and start new ones."""
        demands = []
        with_runner = {runner.entry.experiment_id for runner in self._runners.values()}
        for entry in self._entries:
            runner = self._runners.get(entry.order)
            waits = self._retries.seconds_left(entry.order) > _SHORT_PAUSE or self._waits_for_holder(entry)
            # Two runners of one experiment would compete for its lease.
            if runner is None and (waits or entry.experiment_id in with_runner):
                continue
            demands.append(self._demand(entry, runner))
        listed = {entry.order for entry in self._entries}
        for order, runner in self._runners.items():
            if order not in listed:  # removed from the queue and about to exit, but its slots are not free yet
                # It gets no more slots (wants 0), but those it holds must not be given away.
                demands.append(Demand(order, LOWEST_PRIORITY, 1, 0, runner.has))
        by_order = {runner.entry.order: runner.entry.experiment_id for runner in self._runners.values()}
        by_order |= {entry.order: entry.experiment_id for entry in self._entries}
        shares = self._assignment.give(demands, by_order)
        self._log_slot_holders()
        for order, runner in self._runners.items():
            runner.grant(shares[order])
            if order in self._demands and self._demands[order].on_cluster:
                continue
            if not runner.was_asked_to_pause and runner.seconds_without_slots() > _MOST_SECONDS_WITHOUT_SLOTS:
                self._say(f"experiment {runner.entry.experiment_id}: ending the runner, which waits for slots")
                self._ask_to_pause(runner)
        for entry in self._entries:
            due = entry.order not in self._runners and self._retries.seconds_left(entry.order) <= 0
            # A runner without slots would only occupy memory, unless its trials run on a cluster.
            if due and (shares.get(entry.order) or self._demands[entry.order].on_cluster):
                self._query(partial(self._start, entry, shares.get(entry.order, ())))

    def _log_slot_holders(self) -> None:
        """Log which experiments outside the queue hold slots, if that has changed."""
        holders = self._assignment.holders() if self._assignment.unavailable else []
        if holders and holders != self._slot_holders:
            self._say(f"waiting for slots that are held outside the queue, by {' and '.join(holders)}")
        self._slot_holders = holders

    def _demand(self, entry: Entry, runner: QueueRunner | None) -> Demand:
        """Return the demand of an entry: as reported by its runner, or else estimated from its configuration."""
        estimate = self._demands[entry.order]
        wants = estimate.wants if runner is None or runner.wants is None else runner.wants
        has = () if runner is None else runner.has
        return Demand(entry.order, entry.priority, estimate.slots_per_trial, wants, has)

    def _start(self, entry: Entry, slots: tuple[int, ...], store: Store) -> None:
        """Start a runner for an entry and send its first grant."""
        with self._removing_on_error(store, entry):
            experiment = _experiment(store, entry)
            if experiment is None:
                if store.queue.find(entry.experiment_id) is not None:
                    self._remove(store, entry, "the files of the experiment no longer exist on this machine")
                return
            if experiment.holder is not None and is_running(experiment.holder.process):
                self._wait_for_holder(entry, experiment.holder)
                return
            try:
                runner = QueueRunner(entry, experiment, self._store_place, self._slots)
            # A failed start is retried like a failed runner, since the limit may be temporary.
            except OSError as error:  # for example the limit on processes
                pause = self._retries.failed(entry.order, 0.0)
                if pause is None:
                    self._remove(store, entry, f"the process of the runner cannot be started: {error}")
                return
            self._held_elsewhere.discard(entry.order)
            self._runners[entry.order] = runner
            self._selector.register(runner.connection, selectors.EVENT_READ, runner)
            # The first grant is sent at once, so that trials start as soon as the runner is ready.
            runner.grant(slots)
            self._say(f"experiment {entry.experiment_id}: process {runner.pid} runs it")

    def _ask_to_pause(self, runner: QueueRunner) -> None:
        """Let a runner pause; its connection is closed, so that nothing more is read from it."""
        self._stop_listening(runner)
        runner.ask_to_pause()

    def _stop_listening(self, runner: QueueRunner) -> None:
        """Stop waiting for messages of a runner."""
        # Twice unregistered would raise: both a closed connection and an exit lead here.
        if runner.connection in self._selector.get_map():
            self._selector.unregister(runner.connection)


def _experiment(store: Store, entry: Entry) -> Experiment | None:
    """Return the experiment of an entry; None if it was just deleted.

    None also if its files are not here: then the user has another data directory, which has another daemon.
    """
    try:
        experiment = store.experiments.get(entry.experiment_id)
    except StoreError:
        if store.queue.find(entry.experiment_id) is None:
            return None
        # The entry exists without its experiment: the store is inconsistent, and the error is shown.
        raise
    return experiment if has_files_here(experiment) else None
