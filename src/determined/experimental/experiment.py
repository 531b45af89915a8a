"""An experiment as an object: watch it, steer it, and take what came of it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from determined.errors import DeterminedError
from determined.experimental import checkpoint_lists, frames, metrics, trial_lists
from determined.experimental.checkpoint import Checkpoint
from determined.experimental.enums import ExperimentState, OrderBy, TrialSortBy
from determined.experimental.html_tables import Cells, ShownList, table_of_one
from determined.experimental.output import Output, outputs_of_experiment
from determined.experimental.renamed import warn_renamed
from determined.experimental.session import Session, moment
from determined.experimental.sorting import first
from determined.experimental.trial import Trial
from determined.experimental.unserved import refuse

if TYPE_CHECKING:
    from determined.store import experiment_records
    from determined.store.base import Store

logger = logging.getLogger("determined.experimental")

_ENDED = (ExperimentState.COMPLETED, ExperimentState.CANCELED, ExperimentState.ERROR, ExperimentState.DELETED)
_SECONDS_BETWEEN_NOTES = 60.0
_SECONDS_TO_CHANGE_HANDS = 5.0  # from one process to another that goes on with it


class Experiment:
    """An experiment. Attributes are as they were when it was read; `reload()` reads them anew."""

    def __init__(self, session: Session, row: experiment_records.Experiment) -> None:
        self._session = session
        self._row = row
        self._deleted = False

    if not TYPE_CHECKING:  # for checkers of types these names do not exist

        def __getattr__(self, name: str) -> NoReturn:
            refuse("Experiment", name)

    def __repr__(self) -> str:
        return f"Experiment(id={self.id}, name={self.name!r}, state={self.state.value})"

    def _repr_html_(self) -> str:
        return table_of_one(self)

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
        return self._row.id

    @property
    def config(self) -> dict[str, Any]:
        """The whole configuration, with secrets masked."""
        return self._row.config

    @property
    def state(self) -> ExperimentState:
        return ExperimentState.DELETED if self._deleted else ExperimentState(self._row.state)

    @property
    def reason(self) -> str | None:
        """Why it ended, where there is more to say than its state."""
        return self._row.reason or None

    @property
    def archived(self) -> bool:
        return self._row.archived

    @property
    def name(self) -> str:
        return self._row.name

    @property
    def progress(self) -> float | None:
        """0 to 1."""
        return self._row.progress

    @property
    def description(self) -> str:
        return self._row.description

    @property
    def notes(self) -> str:
        return self._row.notes

    @property
    def labels(self) -> set[str] | None:
        return set(self._row.labels)

    @property
    def project_id(self) -> int | None:
        """There are no projects; labels do that."""
        return None

    @property
    def workspace_id(self) -> int | None:
        """There are no workspaces; stores do that."""
        return None

    @property
    def external_id(self) -> str | None:
        """What the program calls it that runs it by itself; see `core_v2.Config`."""
        return self._row.external_id

    @property
    def best_validation(self) -> float | None:
        """Of all trials, by the searcher's metric."""
        return self._row.best

    @property
    def start_time(self) -> datetime | None:
        return moment(self._row.created)

    @property
    def end_time(self) -> datetime | None:
        return moment(self._row.ended)

    def get_config(self) -> dict[str, Any]:
        """The configuration with all defaults; secrets are masked."""
        return self.config

    def reload(self) -> None:
        """Read everything anew."""
        self._row = self._session.ask(lambda store: store.experiments.get(self.id))

    # Steering it

    def wait(self, interval: float = 5.0) -> ExperimentState:
        """Wait until it has ended, and return how; ask for its state every so many seconds.

        A paused experiment is a ValueError. One that no process runs any more is an error that says what its last
        runner said.
        """
        noted, unattended = time.monotonic(), None
        while self._refreshed() not in _ENDED:
            now = time.monotonic()
            if self.state is ExperimentState.PAUSED:
                why = f" ({self.reason})" if self.reason else ""
                raise ValueError(f"experiment {self.id} is paused{why}: it would not end; go on with activate()")
            unattended = None if self._is_attended() else unattended or now
            if unattended is not None and now - unattended >= _SECONDS_TO_CHANGE_HANDS:
                raise DeterminedError(self._why_unattended())
            if now - noted >= _SECONDS_BETWEEN_NOTES:
                noted = now
                logger.info("waiting for experiment %d: %s, %.0f%%", self.id, self.state.value, 100 * self._done())
            time.sleep(interval)
        return self.state

    def await_first_trial(self, interval: float = 0.1) -> Trial:
        """Its first trial, as soon as there is one; RuntimeError if it ends without."""
        while True:
            state = self._refreshed()
            trials = self.list_trials()
            if trials:
                return trials[0]
            if state in _ENDED:
                raise RuntimeError(f"experiment {self.id} is {state.value}, and has no trial")
            time.sleep(interval)

    def run(self, interval: float = 5.0) -> ExperimentState:
        """Activate it and wait for its end."""
        self.activate()
        return self.wait(interval)

    def activate(self) -> None:
        """Go on with an experiment that was paused or interrupted: it is put into the queue, if nobody runs it.

        A process of its own runs it when there are free slots, and outlives this one. What that process says stands in
        `runner.log` in the experiment's directory.
        """
        from determined.queue.adding import activate

        self._tell_of(self._session.tell(lambda store: activate(store, self._session.place, self.id)))
        self.reload()

    def pause(self) -> None:
        """Its trials save a checkpoint and leave their slots; the runner does so within a second and then ends."""
        self._request("pause")

    def cancel(self) -> None:
        """Its trials save a last checkpoint and end."""
        self._request("cancel")

    def kill(self) -> None:
        """Its trials end at once; what they did since their last checkpoint is lost."""
        self._request("kill")

    def archive(self) -> None:
        """Out of the list; only what has ended."""
        self._change(lambda store: store.upkeep.set_archived(self.id, True))

    def unarchive(self) -> None:
        """Show it in lists again."""
        self._change(lambda store: store.upkeep.set_archived(self.id, False))

    def delete(self) -> None:
        """Remove it: checkpoints, code, TensorBoard files, logs, all records. It must have ended.

        If one of its checkpoints is registered, or another experiment begins with one, nothing is removed.
        """
        from determined.experiment.deleting import delete_experiment

        self._session.tell(lambda store: delete_experiment(store, self.id))
        self._deleted = True

    def delete_tensorboard_files(self) -> None:
        """Of all its trials."""
        from determined.experiment.deleting import delete_tensorboard_files

        self._session.tell(lambda store: delete_tensorboard_files(store, self.id))

    # What people note about it

    def set_name(self, name: str) -> None:
        """Change its name."""
        self._change(lambda store: store.upkeep.describe(self.id, name=name))

    def set_description(self, description: str) -> None:
        """Change its description."""
        self._change(lambda store: store.upkeep.describe(self.id, description=description))

    def set_notes(self, notes: str) -> None:
        """Change its notes."""
        self._change(lambda store: store.upkeep.describe(self.id, notes=notes))

    def add_label(self, label: str) -> None:
        """Add a label."""
        self._change(lambda store: store.upkeep.change_labels(self.id, add=[label]))

    def remove_label(self, label: str) -> None:
        """Take a label away."""
        self._change(lambda store: store.upkeep.change_labels(self.id, remove=[label]))

    def set_labels(self, labels: set[str] | Sequence[str]) -> None:
        """Replace all labels."""
        if isinstance(labels, str):
            raise TypeError(f"labels must be a set or a list of texts, got {labels!r}")
        self._change(lambda store: store.upkeep.set_labels(self.id, sorted(labels)))

    # Trials

    def iter_trials(
        self,
        sort_by: TrialSortBy = TrialSortBy.ID,
        order_by: OrderBy = OrderBy.ASC,
        limit: int | None = None,
    ) -> Iterator[Trial]:
        """At most `limit` of them in that order."""
        rows = self._session.ask(lambda store: trial_lists.read(store, self.id, sort_by))
        for row in first(trial_lists.ordered(rows, sort_by, order_by), "limit", limit):
            yield Trial(self._session, row)

    def list_trials(
        self,
        sort_by: TrialSortBy = TrialSortBy.ID,
        order_by: OrderBy = OrderBy.ASC,
        limit: int | None = None,
    ) -> list[Trial]:
        """Its trials, as `iter_trials` gives them."""
        return ShownList(self.iter_trials(sort_by, order_by, limit))

    def get_trials(self, sort_by: TrialSortBy = TrialSortBy.ID, order_by: OrderBy = OrderBy.ASC) -> list[Trial]:
        """Old name of `list_trials`."""
        warn_renamed("Experiment.get_trials", "Experiment.list_trials")
        return self.list_trials(sort_by, order_by)

    def best_trial(self) -> Trial | None:
        """By the searcher's metric; None as long as none has reported it."""
        order = OrderBy.ASC if self._row.smaller_is_better else OrderBy.DESC
        best = self.list_trials(TrialSortBy.BEST_VALIDATION_METRIC, order, limit=1)
        return best[0] if best and best[0].best_validation is not None else None

    def metrics_frame(self, group: str | None = "validation") -> Any:
        """What all trials reported as a pandas table, hyperparameters beside it; needs the extra `pandas`."""
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
        """Those that are whole; without an order the best by the searcher's metric first.

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
        """The best one by the searcher's metric, or by another one and its direction."""
        warn_renamed("Experiment.top_checkpoint", "Experiment.list_checkpoints(max_results=1)")
        found = self._best(sort_by, smaller_is_better)
        if not found:
            raise AssertionError(f"experiment {self.id} has no checkpoint with a validation that can be compared")
        return found[0]

    def top_n_checkpoints(
        self, limit: int, sort_by: str | None = None, smaller_is_better: bool | None = None
    ) -> list[Checkpoint]:
        """The best one of each of the so many best trials."""
        warn_renamed("Experiment.top_n_checkpoints", "list_checkpoints(max_results=1) of the best trials")
        best_of_trials: dict[int, Checkpoint] = {}
        for checkpoint in self._best(sort_by, smaller_is_better):
            best_of_trials.setdefault(checkpoint.training.trial_id, checkpoint)
        return ShownList(first(list(best_of_trials.values()), "limit", limit))

    def download_code(self, output_dir: str | os.PathLike[str] | None = None) -> str:
        """The code that it runs as `exp-<id>_model_def.tar.gz`; returns the path of that file."""
        from determined.experiment.code_archive import write_code_archive

        directory = os.fspath(output_dir) if output_dir is not None else "."
        return str(write_code_archive(self._row, directory, f"exp-{self.id}_model_def.tar.gz"))

    def _put_into_queue(self) -> None:
        from determined.queue.adding import add

        self._tell_of(self._session.tell(lambda store: add(store, self._session.place, self.id)))
        self.reload()

    def _tell_of(self, daemon: str) -> None:
        from determined.queue.daemon import IS_LEAVING

        if daemon == "leaving":
            logger.warning("experiment %d is in the queue, but %s", self.id, IS_LEAVING)

    def _best(self, sort_by: str | None, smaller_is_better: bool | None) -> list[Checkpoint]:
        return checkpoint_lists.best(
            self._checkpoints(),
            sort_by,
            smaller_is_better,
            metric=self._row.metric,
            configured_direction=self._row.smaller_is_better,
        )

    def _checkpoints(self) -> list[Checkpoint]:
        def read(store: Store) -> list[Checkpoint]:
            rows = store.experiments.checkpoints(self.id)
            # After the checkpoints: a search may create trials in between, but takes none away.
            trials = {row.id: row for row in store.experiments.trials(self.id)}
            return [Checkpoint(self._session, row, trials[row.trial_id], self._row) for row in rows]

        return self._session.ask(read)

    def _request(self, kind: Literal["pause", "cancel", "kill"]) -> None:
        from determined.experiment.control import request

        if self._refreshed() in _ENDED:
            logger.info("experiment %d has ended already: it is %s", self.id, self.state.value)
            return
        self._session.tell(lambda store: request(store, self.id, kind))
        self.reload()

    def _change(self, change: Any) -> None:
        self._session.tell(change)
        self.reload()

    def _refreshed(self) -> ExperimentState:
        if not self._deleted:
            self.reload()
        return self.state

    def _done(self) -> float:
        return self.progress or 0.0

    def _is_attended(self) -> bool:
        from determined.queue.attention import is_attended

        return self._session.ask(lambda store: is_attended(store, self._session.place, self._row))

    def _why_unattended(self) -> str:
        from determined.queue.attention import last_words

        said = last_words(self._row)
        return f"no process runs experiment {self.id}; go on with activate()" + (
            f". Its last runner said:\n{said}" if said else ""
        )
