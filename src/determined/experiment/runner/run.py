"""Run an experiment in this process, from its recorded state until it ends or is paused."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from determined.config.engine import EngineChoice
from determined.config.secrets.line_mask import line_mask
from determined.config.stored import StoredConfig
from determined.config.stored_model import stored_model
from determined.engines.base import Engine
from determined.engines.local import LocalEngine
from determined.errors import DeterminedError, ExperimentHeld, InvalidExperimentException
from determined.experiment.checkpoints.of_trials import TrialCheckpoints
from determined.experiment.creation.current_config import present_config
from determined.experiment.creation.masked_secrets import continuing, with_secrets
from determined.experiment.creation.run_again import check_can_run
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.effective_hparams import EffectiveHparams
from determined.experiment.runner.interrupts import Interrupts
from determined.experiment.runner.lease_keeper import held
from determined.experiment.runner.runner import Runner
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.search import Search, restored
from determined.experiment.runner.settings import Settings, refuse_slots, settings_of
from determined.experiment.runner.trials.logs import OnLine, TrialLogWriter
from determined.experiment.runner.view import Observer
from determined.searchers.base import Extended
from determined.sentences import counted
from determined.stop_request import StopRequest
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.experiment_records import Experiment, Lease
from determined.store.open import open_store, patience
from determined.store.relay.server import RelayServer
from determined.store.states import ExperimentState
from determined.store.store import Store
from determined.store.substores.queue import Entry
from determined.store.workers.writer import Writer

logger = logging.getLogger("determined.experiment")


@dataclass(frozen=True)
class Ended:
    """How the run of an experiment ended: its state, the signal, and the exit code of the last trial process."""

    state: ExperimentState
    signal: int | None = None
    code: int | None = None


def run_experiment(
    store_place: str,
    experiment_id: int,
    *,
    slots: int | None = None,
    engine: Engine | EngineChoice | None = None,
    max_trials: int | None = None,
    observer: Observer | None = None,
    on_line: OnLine | None = None,
    say: Callable[[str], None] | None = None,
    watch_seconds: float = 20.0,
    in_queue: bool = False,
) -> Ended:
    """Run an experiment; raise ExperimentHeld if another process is running it.

    `max_trials` extends a search, even if it has ended. Without an engine, the slots of this machine are used; a choice
    of an engine is opened here, because a cluster must know the experiment. `slots` limits those of an engine that is
    opened here.
    `in_queue` means that the queue runs it, which must contain the experiment; any other caller removes it from the
    queue.
    """

    def opened() -> Store:
        return open_store(store_place)

    with ExitStack() as cleanup:
        # Created before the lease, whose refusal needs it for its message.
        writer = Writer(opened, patience=patience())
        cleanup.callback(writer.close)
        # Requests made before the activation are obsolete. Read before the lease is acquired, so that every later
        # request counts.
        outdated = [] if in_queue else writer.query(lambda store: store.experiments.requests(experiment_id))
        try:
            holding = cleanup.enter_context(held(opened, experiment_id, watch_seconds=watch_seconds))
        except ExperimentHeld as error:
            raise _held(error, writer.query(lambda store: store.queue.find(experiment_id))) from None
        entry = writer.query(lambda store: store.queue.find(experiment_id))
        if in_queue and entry is None:
            raise InvalidExperimentException(f"experiment {experiment_id} was taken out of the queue")
        # Under the lease, so that nothing changes between the checks and the start.
        experiment, files, settings, search = _recorded(writer, experiment_id, max_trials)
        run: RunnerState | None = None

        def announce(request: StopRequest, number: signal.Signals) -> None:
            """Print the line that confirms a signal."""
            if say is not None:
                say(_announcement(request, 0 if run is None else len(run.by_key), number))

        # From here on signals pause the experiment; before this, nothing has started that would have to save.
        interrupts = cleanup.enter_context(Interrupts(announce).listening())
        # A separate writer for logs: a flood of lines must not delay decisions.
        log_writer = Writer(opened, patience=patience())
        cleanup.callback(log_writer.close)
        choice = engine if isinstance(engine, EngineChoice) else EngineChoice()
        # The queue tries again.
        is_paused = not in_queue and not choice.is_local and experiment.state in ("ACTIVE", "PAUSED")
        with _paused_if_refused(writer, holding.lease, settings) if is_paused else nullcontext():
            if engine is None or isinstance(engine, EngineChoice):
                engine = cleanup.enter_context(_opened(choice, slots, experiment, store_place, files, settings))
            if (reason := engine.reason_not_to_fit(settings.slots_per_trial)) is not None:
                refuse_slots(reason)
        # The local engine has no more slots than these; on a cluster they are a limit for this run.
        most_slots = entry.slots if in_queue and entry is not None else slots if engine.spans_machines else None
        if most_slots is not None and most_slots < settings.slots_per_trial:
            wanted = counted(settings.slots_per_trial, "slot")
            refuse_slots(f"a trial wants {wanted}, and the run is limited to {most_slots} by --slots")
        # Run by another command, it no longer belongs to the queue.
        if not in_queue:
            writer.query(lambda store: store.queue.remove(experiment_id))

        def interrupted() -> StopRequest | None:
            """Return the request of a signal, or a pause if the daemon has exited; raise if the lease was lost."""
            # Checked in every round: a runner that lost its lease must stop at once, since another one has taken over.
            holding.check()
            # A runner of the queue must not continue without its daemon, which assigns the slots, and none without its
            # cluster.
            if engine.granter_exited and engine.reason_to_pause and run is not None and not run.pause_reason:
                run.paused_by_request, run.pause_reason = True, engine.reason_to_pause
                logger.error("%s. The experiment is paused", run.pause_reason)
            return interrupts.request or ("pause" if engine.granter_exited else None)

        run = RunnerState(
            experiment=experiment,
            settings=settings,
            search=search,
            files=files,
            lease=holding.lease,
            engine=engine,
            writer=writer,
            logs=TrialLogWriter(log_writer, settings, on_line),
            checkpoints=TrialCheckpoints(experiment_id, settings, writer),
            store_place=store_place,
            mask=line_mask(os.environ, settings.config.plain),
            effective_hparams=EffectiveHparams(settings.space),
            planned=max_trials or StoredConfig(experiment.config).searcher.max_trials or settings.max_trials,
            in_queue=in_queue,
            least_progress=_progress_so_far(experiment, max_trials),
            most_slots=most_slots,
        )
        relay = cleanup.enter_context(closing(RelayServer(opened)))
        engine.serve_store(lambda calls: relay.answer(calls, partial(_trial_of_job, run)))
        state = Runner(
            run,
            interrupted=interrupted,
            outdated_requests=outdated[-1].id if outdated else 0,
            extended=None if max_trials is None else Extended(max_trials),
            observer=observer,
        ).run()
        # While the lease is held, so that it can be added to the queue again right afterwards.
        if in_queue and state != "ACTIVE":
            writer.query(lambda store: store.queue.remove(experiment_id))
        return Ended(state, None if interrupts.signal is None else int(interrupts.signal), run.last_code)


class _Recorded(NamedTuple):
    """An experiment and its search as the previous runner left them."""

    experiment: Experiment
    files: ExperimentFiles
    settings: Settings
    search: Search


def _recorded(writer: Writer[Store], experiment_id: int, max_trials: int | None) -> _Recorded:
    """Read an experiment and restore its search; raise if it cannot be run, or not be extended to `max_trials`."""
    experiment = writer.query(lambda store: store.experiments.get(experiment_id))
    check_can_run(experiment, max_trials, writer.query(lambda store: store.experiments.trials(experiment_id)))
    files = ExperimentFiles.for_key(experiment.key)
    journal = writer.query(lambda store: store.experiments.journal(experiment_id))
    config = stored_model(with_secrets(present_config(files, experiment, journal), continuing(experiment_id)))
    settings = settings_of(StoredConfig(config.plain()))
    snapshot = writer.query(lambda store: store.experiments.snapshot(experiment_id))
    # With the configuration at the creation: continuations are entries of the journal.
    search = restored(stored_model(files.read_config()), experiment.seed, snapshot, journal)
    return _Recorded(experiment, files, settings, search)


@contextmanager
def _paused_if_refused(writer: Writer[Store], lease: Lease, settings: Settings) -> Iterator[None]:
    """Pause an experiment that a cluster refuses, with the reason: otherwise it would be listed as active for ever."""
    try:
        yield
    except DeterminedError as error:
        reason = line_mask(os.environ, settings.config.plain)(str(error))
        paused = Change(experiment=ExperimentChange(state="PAUSED", reason=reason))
        writer.query(lambda store: store.experiments.commit(lease, paused))
        number = lease.experiment_id
        logger.warning("experiment %d is paused; to try again: det experiment activate %d", number, number)
        raise


def _opened(
    choice: EngineChoice,
    slots: int | None,
    experiment: Experiment,
    store_place: str,
    files: ExperimentFiles,
    settings: Settings,
) -> AbstractContextManager[Engine]:
    """Return the engine that was chosen, to be entered."""
    if choice.is_local:
        return LocalEngine(slots)
    # Imported here: searches on one machine do not need it.
    from determined.experiment.runner.cluster.engine import ray_engine

    return ray_engine(choice, experiment, store_place, files, settings)


def _trial_of_job(run: RunnerState, key: str) -> int | None:
    """Return the id of the trial whose current processes were started with this key, or None."""
    trial = run.by_key.get(key)
    return None if trial is None else trial.id


def _progress_so_far(experiment: Experiment, max_trials: int | None) -> float:
    """Return the progress shown so far, which must not decrease; 0 for a search that is extended."""
    extended = max_trials is not None and max_trials != StoredConfig(experiment.config).searcher.max_trials
    return 0.0 if extended else experiment.progress or 0.0


def _held(error: ExperimentHeld, entry: Entry | None) -> ExperimentHeld:
    """Return the error with a hint to the queue if the queue runs the experiment."""
    if entry is None:
        return error
    return ExperimentHeld(
        f"{error}: the queue runs it; see `det queue`, or take it out with `det queue remove {entry.experiment_id}`"
    )


def _announcement(request: StopRequest, trials: int, number: signal.Signals) -> str:
    """Return the line that confirms a signal."""
    if request == "halt":
        return "Stopping without saving: trials resume from their last checkpoints"
    if not trials:
        return "Pausing: no trial is running"
    again = " (Ctrl-C again: stop without saving)" if number == signal.SIGINT else ""
    return f"Pausing: saving {counted(trials, 'trial')} …{again}"
