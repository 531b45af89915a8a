"""Continue an experiment with a changed configuration, even after its end; its trials resume from their checkpoints.

The file with the new configuration is written first, then one journal entry with all consequences. An interruption in
between changes nothing, because only a journal entry makes the file valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from determined.config.derive import derive
from determined.config.engine import parse_engine
from determined.config.experiment import ExperimentConfig, load_experiment
from determined.config.registry.search_methods import SearchMethod, search_method
from determined.config.secrets.fixed_secrets import mask_fixed
from determined.config.secrets.masking import mask_secrets
from determined.config.stored import StoredConfig
from determined.config.stored_model import stored_model
from determined.errors import InvalidExperimentException
from determined.experiment.code import startup_hook
from determined.experiment.creation import entrypoint_check
from determined.experiment.creation.changeable_fields import (
    changed_paths,
    new_hparams,
    refuse_another_method,
    refuse_fixed_settings,
)
from determined.experiment.creation.current_config import present_config
from determined.experiment.creation.masked_secrets import continuing, with_secrets
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.decisions import new_trial
from determined.experiment.runner.search import restored
from determined.experiment.runner.settings import settings_of
from determined.searchers.base import Create, Extended, Reopened
from determined.searchers.method import method_of
from determined.store.experiment_changes import (
    Change,
    ExperimentChange,
    NewTrial,
    TrialChange,
)
from determined.store.experiment_records import (
    Experiment,
    JournalEntry,
    Lease,
    Trial,
)
from determined.store.process import this_process
from determined.store.states import EXPERIMENT_ENDED, TRIAL_ENDED, UNSUCCESSFUL
from determined.store.store import Store

_SHORT_WATCH = 3.0  # the heartbeat of a live runner is about once a second


@dataclass(frozen=True)
class Continued:
    """The consequences of a continuation, effective when the experiment is activated."""

    changed: tuple[str, ...]  # changed settings
    trials: tuple[int, ...]  # ids of ended trials that will be resumed
    max_trials: int | None  # new number of trials, if only the runner can extend the search


def reopen_if_needed(store: Store, experiment_id: int, changes: dict[str, Any]) -> Continued | None:
    """Like `reopen`, but leave a paused experiment without changes as it is: it only has to be activated."""
    if not changes and store.experiments.get(experiment_id).state not in EXPERIMENT_ENDED:
        return None
    return reopen(store, experiment_id, changes)


def reopen(store: Store, experiment_id: int, changes: dict[str, Any]) -> Continued:
    """Merge changes into the configuration of an experiment and make it ACTIVE, so that it can be run again.

    Raises `ExperimentHeld` if it is running, and InvalidExperimentConfig for settings that can no longer change.
    """
    experiment = store.experiments.get(experiment_id)
    if experiment.is_standalone:
        raise InvalidExperimentException(
            f"experiment {experiment.id} is a standalone run of {experiment.program}: start the program again"
        )
    lease = store.experiments.acquire(experiment_id, this_process(), watch_seconds=_SHORT_WATCH)
    try:
        # Read again under the lease: a runner may have changed it since.
        return _reopen(store, store.experiments.get(experiment_id), lease, changes)
    finally:
        store.experiments.release(lease)


def _reopen(store: Store, experiment: Experiment, lease: Lease, changes: dict[str, Any]) -> Continued:
    """Check the changes, then write the new configuration file and commit the journal entry with its consequences."""
    files = ExperimentFiles.for_key(experiment.key)
    journal = store.experiments.journal(experiment.id)
    # Checked completely before anything is written.
    change = _change(files, experiment, journal, changes)
    trials = store.experiments.trials(experiment.id)
    again = _trials_to_continue(change, trials)
    if not change.names and not again and experiment.state not in EXPERIMENT_ENDED:
        return Continued((), (), None)  # already done, possibly by a call that was interrupted
    reaction = _search_response(store, experiment, files, journal, again, change.max_trials)
    _refuse_if_nothing_to_do(experiment, change, reaction)
    names, config, left_to_runner = tuple(change.names), change.config.plain(), None
    if change.max_trials is not None and change.method.compares_trials:
        # The extension may affect paused trials, which only the runner can handle: it extends the search and records
        # it.
        left_to_runner = change.max_trials
        if names == ("searcher.max_trials",):
            return Continued(names, (), left_to_runner)
        # The runner raises this number together with the journal entry of the extension.
        config["searcher"]["max_trials"] = _trials_of(change.before)
        reaction = _search_response(store, experiment, files, journal, again, None)
    # The name contains the number of the journal entry: without that entry the file is ignored.
    files.write_config(config, reaction.entries[-1].sequence)
    store.experiments.commit(lease, _row_changes(change, config, trials, again, reaction))
    return Continued(names, tuple(trial.id for trial in again), left_to_runner)


@dataclass(frozen=True)
class _Change:
    """The configuration before and after, and the names of the settings that differ."""

    before: ExperimentConfig
    config: ExperimentConfig
    names: list[str]

    @property
    def method(self) -> SearchMethod:
        """Return the properties of the search method."""
        return search_method(self.before.searcher.name)

    @property
    def max_trials(self) -> int | None:
        """The new number of trials, or None if it did not change."""
        return _trials_of(self.config) if "searcher.max_trials" in self.names else None


@dataclass(frozen=True)
class _SearchResponse:
    """How the search reacts to the changes: journal entries, new trials, and whether nothing is left to do."""

    entries: list[JournalEntry]
    created: list[NewTrial]
    finished: bool


def _trials_of(config: ExperimentConfig) -> int | None:
    """Return the number of trials of a search, or None if its method has no such setting."""
    return StoredConfig(config.plain()).searcher.max_trials


def _change(
    files: ExperimentFiles, experiment: Experiment, journal: list[JournalEntry], changes: dict[str, Any]
) -> _Change:
    """Return the checked changes of the configuration."""
    before = stored_model(present_config(files, experiment, journal))
    # Before validation, whose messages would be about settings of the other method.
    refuse_another_method(before, changes)
    config = load_experiment(derive(before.plain(), changes)).config
    names = changed_paths(before.plain(), config.plain())
    refuse_fixed_settings(before, config, names)
    # The file keeps the asterisks of variables that come from the environment: the next process needs them as well.
    complete = StoredConfig(with_secrets(config.plain(), continuing(experiment.id)))
    if "entrypoint" in names:
        command, place = settings_of(complete).command, files.place or files.code
        if parse_engine(complete.resources.engine, "resources.engine").is_local:
            hook = startup_hook.prepare(files, complete)
            entrypoint_check.check(command, place, complete, None, hook)
        else:
            entrypoint_check.check_files(command, place, complete)
    return _Change(before, config, names)


def _trials_to_continue(change: _Change, trials: Sequence[Trial]) -> list[Trial]:
    """Return the ended trials to resume.

    For a single trial that one; otherwise those that failed, and if the length was raised also those that completed.
    """
    over = [trial for trial in trials if trial.state in TRIAL_ENDED]
    if change.method.one_trial:
        return over
    if change.method.compares_trials:
        return []
    states = (*UNSUCCESSFUL, "COMPLETED") if "searcher.max_length" in change.names else UNSUCCESSFUL
    return [trial for trial in over if trial.state in states]


def _search_response(
    store: Store,
    experiment: Experiment,
    files: ExperimentFiles,
    journal: list[JournalEntry],
    again: Sequence[Trial],
    max_trials: int | None,
) -> _SearchResponse:
    """Replay the search, report the changes to it, and return its reaction. Nothing is written."""
    # The original configuration: the journal replays later changes.
    original = stored_model(files.read_config())
    search = restored(original, experiment.seed, store.experiments.snapshot(experiment.id), journal)
    # An experiment that was created paused has not begun.
    answers = [] if search.begun else [search.start()]
    if max_trials is not None:
        answers.append(search.report(Extended(max_trials)))
    answers.append(search.report(Reopened(tuple(trial.number for trial in again))))
    created = [
        new_trial(action, original.searcher.source_checkpoint_uuid, original.hyperparameters)
        for _, actions in answers
        for action in actions
        if isinstance(action, Create)
    ]
    return _SearchResponse([entry for entry, _ in answers], created, search.searcher.finished)


def _refuse_if_nothing_to_do(experiment: Experiment, change: _Change, reaction: _SearchResponse) -> None:
    """Raise InvalidExperimentException if the changes leave nothing to do."""
    done_before = change.method.one_trial and experiment.state == "COMPLETED" and not change.names
    if reaction.finished or done_before:
        raise InvalidExperimentException(
            f"experiment {experiment.id} has ended, it is {experiment.state}, and nothing is left to do: "
            f"{method_of(change.before.searcher).to_continue}"
        )


def _row_changes(
    change: _Change, config: dict[str, Any], trials: Sequence[Trial], again: Sequence[Trial], reaction: _SearchResponse
) -> Change:
    """Return the row changes of a continuation with this plain configuration, to be committed in one transaction."""
    changed = new_hparams(change.before, change.config, change.names)

    def hparams(known: dict[str, Any]) -> dict[str, Any]:
        return known if changed is None else mask_fixed(changed(known), change.config.hyperparameters)

    if changed is None:
        created, touched = reaction.created, again
    else:
        created, touched = [new._replace(hparams=hparams(new.hparams)) for new in reaction.created], trials
    return Change(
        journal=tuple(reaction.entries),
        new_trials=tuple(created),
        trials=tuple(
            TrialChange(
                trial.id,
                state="QUEUED" if trial in again else None,
                # A continued trial gets all its restarts again.
                restarts=0,
                reason="",
                hparams=None if changed is None else hparams(trial.hparams),
            )
            for trial in touched
        ),
        # The fraction done is of the new length, so it begins at 0 again.
        experiment=ExperimentChange(
            state="ACTIVE", reason="", archived=False, config=mask_secrets(config), progress=0.0
        ),
    )
