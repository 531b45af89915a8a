"""`Experiment`: watch and control an experiment, and read its results."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from determined.experimental import experiment_control, metrics
from determined.experimental.checkpoint import Checkpoint
from determined.experimental.enums import ExperimentState, OrderBy, TrialSortBy
from determined.experimental.old_names import raise_missing, warn_renamed
from determined.experimental.output import Output, outputs_of_experiment
from determined.experimental.results import checkpoint_lists, frames, lists
from determined.experimental.results.html_tables import Cells, ShownList, table_of_one
from determined.experimental.results.lists import first
from determined.experimental.session import Session, utc_datetime
from determined.experimental.trial import Trial
from determined.stop_request import StopRequest
from determined.store.states import EXPERIMENT_ENDED

if TYPE_CHECKING:
    from determined.store import experiment_records
    from determined.store.store import Store

logger = logging.getLogger("determined.experimental")

# Derived from the store's set, so that a new terminal state needs no change here.
_ENDED = (*map(ExperimentState, EXPERIMENT_ENDED), ExperimentState.DELETED)


class Experiment:
    """An experiment. Attributes have the values of the last read; `reload()` reads them again."""

    def __init__(self, session: Session, row: experiment_records.Experiment) -> None:
        self._session = session
        self._row = row
        # The row does not exist any more after `delete`, so the state is kept here.
        self._deleted = False

    if not TYPE_CHECKING:  # hidden from type checkers, for which unknown names must be errors

        def __getattr__(self, name: str) -> NoReturn:
            raise_missing("Experiment", name)

    def __repr__(self) -> str:
        return f"Experiment(id={self.id}, name={self.name!r}, state={self.state.value})"

    def _repr_html_(self) -> str:
        # Imported on use: it imports numpy, and only notebooks need it.
        from determined.experimental.charts.frame import chart_of

        return table_of_one(self) + ("" if self._deleted else chart_of(self._session, experiment_id=self.id))

    def _cells(self) -> Cells:
        row = self._row
        return {
            "ID": self.id,
            "Name": self.name,
            "State": self.state.value,
            "Progress": None if self.progress is None else f"{self.progress:.0%}",
            "Trials": row.trial_count,
            "Metric": row.metric,
            "Best": self.best_validation,
            "Labels": row.labels,
            "Owner": row.owner,
            "Started": self.start_time,
            "Ended": self.end_time,
            "Description": self.description,
            "Reason": self.reason,
        }

    def _settings(self) -> Cells:
        return {}

    @property
    def id(self) -> int:
        """The id of the experiment in the store."""
        return self._row.id

    @property
    def config(self) -> dict[str, Any]:
        """The complete configuration, with secrets masked."""
        return self._row.config

    @property
    def state(self) -> ExperimentState:
        """The state as it was last read; DELETED after `delete()`."""
        return ExperimentState.DELETED if self._deleted else ExperimentState(self._row.state)

    @property
    def reason(self) -> str | None:
        """Why the experiment ended, if there is more to say than its state."""
        return self._row.reason or None

    @property
    def archived(self) -> bool:
        """Whether lists leave the experiment out by default."""
        return self._row.archived

    @property
    def name(self) -> str:
        """The name, which need not be unique."""
        return self._row.name

    @property
    def progress(self) -> float | None:
        """The completed fraction of the search, from 0 to 1."""
        return self._row.progress

    @property
    def description(self) -> str:
        """The description, a text shown in lists."""
        return self._row.description

    @property
    def notes(self) -> str:
        """The notes, a free text."""
        return self._row.notes

    @property
    def labels(self) -> set[str] | None:
        """The labels, by which lists can be filtered; empty if there are none."""
        return set(self._row.labels)

    @property
    def project_id(self) -> int | None:
        """Always None: there are no projects; use labels."""
        return None

    @property
    def workspace_id(self) -> int | None:
        """Always None: there are no workspaces; use separate stores."""
        return None

    @property
    def external_id(self) -> str | None:
        """The program's own name of the experiment; see `core_v2.Config`."""
        return self._row.external_id

    @property
    def best_validation(self) -> float | None:
        """The best searcher metric of all trials."""
        return self._row.best

    @property
    def start_time(self) -> datetime | None:
        """When the experiment was created."""
        return utc_datetime(self._row.created)

    @property
    def end_time(self) -> datetime | None:
        """When the experiment ended; None before that."""
        return utc_datetime(self._row.ended)

    def get_config(self) -> dict[str, Any]:
        """Return the configuration with all defaults and with secrets masked."""
        return self.config

    def reload(self) -> None:
        """Read the experiment's record from the store again."""
        self._row = self._session.read(lambda store: store.experiments.get(self.id))

    # Control

    def wait(self, interval: float = 5.0) -> ExperimentState:
        """Wait until the experiment has ended and return its state; poll every `interval` seconds.

        Raises ValueError if the experiment is paused, and DeterminedError with the last messages of its runner if no
        process is running it.
        """
        if not self._deleted:
            experiment_control.wait_for_end(self._session, self._reloaded_row, interval)
        return self.state

    def await_first_trial(self, interval: float = 0.1) -> Trial:
        """Wait for the first trial and return it; raise RuntimeError if the experiment ends without one."""
        # A search may create its first trial long after the experiment, for example when it waits for slots.
        while True:
            state = self._refreshed()
            trials = self.list_trials()
            if trials:
                return trials[0]
            if state in _ENDED:
                raise RuntimeError(f"experiment {self.id} is {state.value} and has no trial")
            time.sleep(interval)

    def run(self, interval: float = 5.0) -> ExperimentState:
        """Activate the experiment and wait for its end."""
        self.activate()
        return self.wait(interval)

    def activate(self) -> None:
        """Resume a paused or interrupted experiment: add it to the queue unless a process is running it.

        A separate process runs it when slots are free, and outlives this one. The log of that process is `runner.log`
        in the experiment's directory.
        """
        experiment_control.activate(self._session, self.id)
        self.reload()

    def pause(self) -> None:
        """Pause the experiment: its trials save a checkpoint and release their slots.

        The runner reacts within a second.
        """
        self._request("pause")

    def cancel(self) -> None:
        """Cancel the experiment: its trials save a last checkpoint and end."""
        self._request("cancel")

    def kill(self) -> None:
        """Kill the experiment: its trials end immediately, and work since their last checkpoints is lost."""
        self._request("kill")

    def archive(self) -> None:
        """Hide an ended experiment from lists."""
        self._change(lambda store: store.upkeep.set_archived(self.id, True))

    def unarchive(self) -> None:
        """Show the experiment in lists again."""
        self._change(lambda store: store.upkeep.set_archived(self.id, False))

    def delete(self) -> None:
        """Delete an ended experiment: checkpoints, code, TensorBoard files, logs and all records.

        If one of its checkpoints is registered, or another experiment starts from one, nothing is deleted and
        CheckpointInUse is raised.
        """
        from determined.experiment.deletion import delete_experiment

        self._session.write(lambda store: delete_experiment(store, self.id))
        self._deleted = True

    def delete_tensorboard_files(self) -> None:
        """Delete the TensorBoard files of all trials."""
        from determined.experiment.deletion import delete_tensorboard_files

        self._session.write(lambda store: delete_tensorboard_files(store, self.id))

    # Description and labels

    def set_name(self, name: str) -> None:
        """Change the name."""
        self._change(lambda store: store.upkeep.describe(self.id, name=name))

    def set_description(self, description: str) -> None:
        """Change the description."""
        self._change(lambda store: store.upkeep.describe(self.id, description=description))

    def set_notes(self, notes: str) -> None:
        """Change the notes."""
        self._change(lambda store: store.upkeep.describe(self.id, notes=notes))

    def add_label(self, label: str) -> None:
        """Add a label."""
        self._change(lambda store: store.upkeep.change_labels(self.id, add=[label]))

    def remove_label(self, label: str) -> None:
        """Remove a label."""
        self._change(lambda store: store.upkeep.change_labels(self.id, remove=[label]))

    def set_labels(self, labels: set[str] | Sequence[str]) -> None:
        """Replace all labels."""
        # A text is a sequence too, and each of its letters would become a label.
        if isinstance(labels, str):
            raise TypeError(f"labels must be a set or a list of strings, got {labels!r}")
        self._change(lambda store: store.upkeep.set_labels(self.id, sorted(labels)))

    # Trials

    def iter_trials(
        self,
        sort_by: TrialSortBy = TrialSortBy.ID,
        order_by: OrderBy = OrderBy.ASC,
        limit: int | None = None,
    ) -> Iterator[Trial]:
        """Yield at most `limit` trials in the given order."""
        rows = self._session.read(lambda store: lists.read_trials(store, self.id, sort_by))
        for row in first(lists.ordered_trials(rows, sort_by, order_by), "limit", limit):
            yield Trial(self._session, row)

    def list_trials(
        self,
        sort_by: TrialSortBy = TrialSortBy.ID,
        order_by: OrderBy = OrderBy.ASC,
        limit: int | None = None,
    ) -> list[Trial]:
        """Return at most `limit` trials in the given order."""
        return ShownList(self.iter_trials(sort_by, order_by, limit))

    def get_trials(self, sort_by: TrialSortBy = TrialSortBy.ID, order_by: OrderBy = OrderBy.ASC) -> list[Trial]:
        """Deprecated name of `list_trials`."""
        warn_renamed("Experiment.get_trials", "Experiment.list_trials")
        return self.list_trials(sort_by, order_by)

    def best_trial(self) -> Trial | None:
        """Return the best trial by the searcher metric, or None if no trial has reported it."""
        # The better end of the order comes first.
        order = OrderBy.ASC if self._row.smaller_is_better else OrderBy.DESC
        best = self.list_trials(TrialSortBy.BEST_VALIDATION_METRIC, order, limit=1)
        return best[0] if best and best[0].best_validation is not None else None

    def metrics_frame(self, group: str | None = "validation") -> Any:
        """Return the metrics and hyperparameters of all trials as a pandas DataFrame; needs the extra `pandas`."""
        trials = self.list_trials()
        rows = metrics.iter_metrics(self._session, [trial.id for trial in trials], group)
        return frames.metrics_frame(rows, {trial.id: trial.effective_hparams for trial in trials})

    # Checkpoints

    def list_checkpoints(
        self,
        sort_by: checkpoint_lists.SortBy | None = None,
        order_by: OrderBy | None = None,
        max_results: int | None = None,
    ) -> list[Checkpoint]:
        """Return the complete checkpoints; by default the best by the searcher metric come first.

        `sort_by` is the name of a validation metric or a CheckpointSortBy.
        """
        return checkpoint_lists.listed(
            self._checkpoints(),
            sort_by,
            order_by,
            max_results,
            metric=self._row.metric,
            smaller_is_better=self._row.smaller_is_better,
        )

    def list_outputs(self) -> list[Output]:
        """Return the outputs that batch inference uploaded, one for each trial that uploaded something."""
        return outputs_of_experiment(self._session, self.id)

    def top_checkpoint(self, sort_by: str | None = None, smaller_is_better: bool | None = None) -> Checkpoint:
        """Return the best checkpoint by the searcher metric, or by another metric and its direction (deprecated)."""
        warn_renamed("Experiment.top_checkpoint", "Experiment.list_checkpoints(max_results=1)")
        found = self._best(sort_by, smaller_is_better)
        if not found:
            raise AssertionError(f"experiment {self.id} has no checkpoint with a validation that can be compared")
        return found[0]

    def top_n_checkpoints(
        self, limit: int, sort_by: str | None = None, smaller_is_better: bool | None = None
    ) -> list[Checkpoint]:
        """Return the best checkpoint of each of the `limit` best trials (deprecated)."""
        warn_renamed("Experiment.top_n_checkpoints", "list_checkpoints(max_results=1) of the best trials")
        best_of_trials: dict[int, Checkpoint] = {}
        for checkpoint in self._best(sort_by, smaller_is_better):
            best_of_trials.setdefault(checkpoint.training.trial_id, checkpoint)
        return ShownList(first(list(best_of_trials.values()), "limit", limit))

    def download_code(self, output_dir: str | os.PathLike[str] | None = None) -> str:
        """Write the experiment's code to `exp-<id>_model_def.tar.gz` and return the path of that file."""
        from determined.experiment.code.archive import write_code_archive

        directory = os.fspath(output_dir) if output_dir is not None else "."
        return str(write_code_archive(self._row, directory, f"exp-{self.id}_model_def.tar.gz"))

    def _enqueue(self) -> None:
        """Add the experiment to the queue."""
        experiment_control.enqueue(self._session, self.id)
        self.reload()

    def _best(self, sort_by: str | None, smaller_is_better: bool | None) -> list[Checkpoint]:
        """Return the complete checkpoints that have a number for the metric, best first."""
        return checkpoint_lists.best(
            self._checkpoints(),
            sort_by,
            smaller_is_better,
            metric=self._row.metric,
            configured_direction=self._row.smaller_is_better,
        )

    def _checkpoints(self) -> list[Checkpoint]:
        """Return all checkpoints of the experiment, newest first."""

        def read(store: Store) -> list[Checkpoint]:
            rows = store.experiments.checkpoints(self.id)
            # Read after the checkpoints: a search may create trials in between, but never deletes any.
            trials = {row.id: row for row in store.experiments.trials(self.id)}
            return [Checkpoint(self._session, row, trials[row.trial_id], self._row) for row in rows]

        return self._session.read(read)

    def _request(self, kind: StopRequest) -> None:
        """Send a request to the runner, unless the experiment has ended."""
        if self._refreshed() in _ENDED:
            # Not an error: clean-up code of programs cancels without asking for the state.
            logger.info("experiment %d has already ended: it is %s", self.id, self.state.value)
            return
        experiment_control.request(self._session, self.id, kind)
        self.reload()

    def _change(self, change: Callable[[Store], object]) -> None:
        """Change the experiment in the store, and read it again."""
        self._session.write(change)
        self.reload()

    def _refreshed(self) -> ExperimentState:
        """Return the current state; an experiment that was deleted by this object is not read again."""
        if not self._deleted:
            self.reload()
        return self.state

    def _reloaded_row(self) -> experiment_records.Experiment:
        """Read the experiment's record again and return it."""
        self.reload()
        return self._row
