"""Continue an experiment with a changed configuration, also one that has ended: its trials go on from what they saved.

The file with the new configuration comes first, then one entry in the journal with all that follows from it: whoever is
cut short in between has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from determined.config.derive import derive
from determined.config.experiment import ExperimentConfig, load_experiment
from determined.config.masking import mask_secrets
from determined.errors import InvalidExperimentException
from determined.experiment import entrypoint
from determined.experiment.changeable import (
    changed_paths,
    new_hparams,
    refuse_another_method,
    refuse_what_is_fixed,
)
from determined.experiment.configured import present_config
from determined.experiment.deciding import new_trial
from determined.experiment.files import ExperimentFiles
from determined.experiment.search import restored
from determined.experiment.settings import settings_of
from determined.searchers.base import Create, Extended, Reopened
from determined.store.base import Store
from determined.store.experiment_records import (
    Change,
    Experiment,
    ExperimentChange,
    JournalEntry,
    Lease,
    NewEntry,
    NewTrial,
    Trial,
    TrialChange,
)
from determined.store.process import this_process

_ENDED = ("COMPLETED", "CANCELED", "ERROR")
_FAILED = ("ERROR", "CANCELED")
_OVER = ("COMPLETED", "STOPPED_EARLY", "INVALID_HP", "CANCELED", "ERROR")
_FREE = ("single", "random", "grid")  # methods whose trials are not compared on the way
_MORE_TRIALS = "its trials were compared and are over; give it more with --config searcher.max_trials=N"
_MORE = {
    "single": "say what shall change, for example --config searcher.max_length.batches=2000",
    "random": "give it more trials with --config searcher.max_trials=N, or more to train with searcher.max_length",
    "grid": "give its trials more to train with --config searcher.max_length.batches=N",
    "pbt": "a population goes no further; create another experiment with searcher.source_checkpoint_uuid",
}
_SHORT_WATCH = 3.0  # a living runner shows itself about once a second


@dataclass(frozen=True)
class Continued:
    """What will be done when the experiment is activated."""

    changed: tuple[str, ...]  # names in the configuration
    trials: tuple[int, ...]  # ids of those that were over and go on
    max_trials: int | None  # what the search is still to be extended to, where only its runner can do that


def reopen(store: Store, experiment_id: int, changes: dict[str, Any]) -> Continued:
    """After this the experiment is ACTIVE, and whoever activates it runs it. `ExperimentHeld` if somebody does already.

    `changes` are merged into the configuration; what cannot be changed any more is refused by name.
    """
    experiment = store.experiments.get(experiment_id)
    if experiment.by_hand:
        raise InvalidExperimentException(
            f"experiment {experiment.id} is a run of {experiment.program} that somebody started by hand: start it again"
        )
    lease = store.experiments.acquire(experiment_id, this_process(), watch_seconds=_SHORT_WATCH)
    try:
        return _reopen(store, store.experiments.get(experiment_id), lease, changes)
    finally:
        store.experiments.release(lease)


def _reopen(store: Store, experiment: Experiment, lease: Lease, changes: dict[str, Any]) -> Continued:
    files = ExperimentFiles.for_key(experiment.key)
    journal = store.experiments.journal(experiment.id)
    before = load_experiment(present_config(files, experiment, journal)).config.plain()
    refuse_another_method(before, changes)
    after = load_experiment(derive(before, changes)).config
    config = after.plain()
    changed = changed_paths(before, config)
    refuse_what_is_fixed(before, config, changed)
    if "entrypoint" in changed:
        entrypoint.check(settings_of(config).command, files.code, config, None)
    trials = store.experiments.trials(experiment.id)
    again = _to_go_on(after, trials, longer=any(path.startswith("searcher.max_length") for path in changed))
    if not changed and not again and experiment.state not in _ENDED:
        return Continued((), (), None)  # as the last one wanted it, who may have been cut short
    extended = config["searcher"].get("max_trials") if "searcher.max_trials" in changed else None
    free = after.searcher.name in _FREE
    entries, created = _decide(store, experiment, files, journal, again, extended, changed)
    if extended is not None and not free:
        # What follows may concern trials that wait: that is for the runner, who extends it and writes it down.
        if len(changed) == 1:
            return Continued(tuple(changed), (), extended)
        config["searcher"]["max_trials"] = before["searcher"]["max_trials"]
        entries, created = _decide(store, experiment, files, journal, again, None, changed)
    hparams = new_hparams(before, config, changed)
    files.write_config(config, entries[-1].sequence)
    store.experiments.commit(
        lease,
        Change(
            journal=tuple(entries),
            new_trials=tuple(new if hparams is None else replace(new, hparams=hparams(new.hparams)) for new in created),
            trials=tuple(
                TrialChange(
                    trial.id,
                    state="QUEUED" if trial in again else None,
                    restarts=0,
                    reason="",
                    hparams=None if hparams is None else hparams(trial.hparams),
                )
                for trial in (again if hparams is None else trials)
            ),
            experiment=ExperimentChange(state="ACTIVE", reason="", archived=False, config=mask_secrets(config)),
        ),
    )
    return Continued(tuple(changed), tuple(trial.id for trial in again), None if free else extended)


def _to_go_on(config: ExperimentConfig, trials: Sequence[Trial], *, longer: bool) -> list[Trial]:
    """The one trial; of several those that failed, and with more to train those that came to their end as well."""
    over = [trial for trial in trials if trial.state in _OVER]
    if config.searcher.name == "single":
        return over
    if config.searcher.name not in _FREE:
        return []
    return [trial for trial in over if trial.state in _FAILED or (longer and trial.state == "COMPLETED")]


def _decide(
    store: Store,
    experiment: Experiment,
    files: ExperimentFiles,
    journal: list[JournalEntry],
    again: Sequence[Trial],
    max_trials: int | None,
    changed: Sequence[str],
) -> tuple[list[NewEntry], list[NewTrial]]:
    """What the search is told; it may answer with new trials. What it refuses is an error, and nothing was written."""
    original = load_experiment(files.read_config()).config
    search = restored(original, experiment.seed, store.experiments.snapshot(experiment.id), journal)
    told = [] if search.begun else [search.start()]
    if max_trials is not None:
        told.append(search.tell(Extended(max_trials)))
    told.append(search.tell(Reopened(tuple(trial.number for trial in again))))
    unchanged = original.searcher.name == "single" and experiment.state == "COMPLETED" and not changed
    if search.searcher.finished or unchanged:
        raise InvalidExperimentException(
            f"experiment {experiment.id} has ended, it is {experiment.state}, and nothing is left to do: "
            f"{_MORE.get(original.searcher.name, _MORE_TRIALS)}"
        )
    source = settings_of(original.plain()).source
    created = [new_trial(action, source) for _, actions in told for action in actions if isinstance(action, Create)]
    return [entry for entry, _ in told], created
