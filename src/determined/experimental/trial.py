"""`Trial`: the state, metrics, logs and checkpoints of a trial."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from determined.config.flattening import flat
from determined.experimental import metrics, trial_logs
from determined.experimental.checkpoint import Checkpoint
from determined.experimental.enums import LogLevel, OrderBy, TrialState
from determined.experimental.metrics import TrialMetrics
from determined.experimental.old_names import warn_renamed
from determined.experimental.output import Output, outputs_of_trial
from determined.experimental.results import checkpoint_lists, frames
from determined.experimental.results.html_tables import Cells, table_of_one
from determined.experimental.session import Session, utc_datetime
from determined.store.records import LogFilter
from determined.store.states import TRIAL_ENDED

if TYPE_CHECKING:
    from determined.experimental.experiment import Experiment
    from determined.store import experiment_records
    from determined.store.store import Store

logger = logging.getLogger("determined.experimental")


class Trial:
    """A trial of an experiment. Attributes have the values of the last read; `reload()` reads them again."""

    def __init__(self, session: Session, row: experiment_records.Trial) -> None:
        self._session = session
        self._row = row

    def __repr__(self) -> str:
        return f"Trial(id={self.id}, experiment_id={self.experiment_id}, state={self.state.value})"

    def _repr_html_(self) -> str:
        # Imported on use: it imports numpy, and only notebooks need it.
        from determined.experimental.charts.frame import chart_of

        return table_of_one(self) + chart_of(self._session, trial_ids=(self.id,))

    def _cells(self) -> Cells:
        return {
            "ID": self.id,
            "Experiment": self.experiment_id,
            "State": self.state.value,
            "Best": self.best_validation,
            "Steps": self.steps_completed,
            "Restarts": self.restarts or None,
            "Started": self.start_time,
            "Ended": self.end_time,
            "Reason": self.reason,
        }

    def _settings(self) -> Cells:
        # Imported on use: it compiles expressions, which only a notebook needs.
        from determined.config.secrets.masking import mask_secrets

        return flat(mask_secrets(self.effective_hparams))

    @property
    def id(self) -> int:
        """The id of the trial in the store."""
        return self._row.id

    @property
    def experiment_id(self) -> int:
        """The id of the experiment that the trial belongs to."""
        return self._row.experiment_id

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyperparameters that the search assigned."""
        return self._row.hparams

    @property
    def effective_hparams(self) -> dict[str, Any]:
        """The hyperparameters used in training: `hparams`, unless the program passed others to `pytorch.init()`."""
        return self._row.effective_hparams

    @property
    def state(self) -> TrialState:
        """The state as it was last read."""
        return TrialState(self._row.state)

    @property
    def reason(self) -> str | None:
        """Why the trial ended, if there is more to say than its state."""
        return self._row.reason or None

    @property
    def restarts(self) -> int:
        """The number of restarts after failures."""
        return self._row.restarts

    @property
    def steps_completed(self) -> int:
        """The largest reported step."""
        return self._row.steps_completed

    @property
    def external_id(self) -> str | None:
        """The program's own name of the trial; see `core_v2.Config`."""
        return self._row.external_id

    @property
    def best_validation(self) -> float | None:
        """The best value of the searcher metric."""
        return self._row.best

    @property
    def start_time(self) -> datetime | None:
        """When the trial was started; None before that."""
        return utc_datetime(self._row.started)

    @property
    def end_time(self) -> datetime | None:
        """When the trial ended; None before that."""
        return utc_datetime(self._row.ended)

    @property
    def summary_metrics(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By group and name: count, sum, min, max, mean, last and type of the reported values."""
        return metrics.summarize(self._session, self.id)

    def reload(self) -> None:
        """Read the trial's record from the store again."""
        self._row = self._session.read(lambda store: store.experiments.trial(self.id))

    def get_experiment(self) -> Experiment:
        """Return the experiment of the trial."""
        # That module imports this one.
        from determined.experimental.experiment import Experiment

        return Experiment(self._session, self._session.read(lambda store: store.experiments.get(self.experiment_id)))

    def iter_metrics(self, group: str | None = None) -> Iterator[TrialMetrics]:
        """Yield the metrics of a group, such as "training" or "validation", by step; of all groups by default."""
        return metrics.iter_metrics(self._session, [self.id], group)

    def stream_metrics(self, group: str | None = None) -> Iterator[TrialMetrics]:
        """Deprecated name of `iter_metrics`."""
        warn_renamed("Trial.stream_metrics", "Trial.iter_metrics")
        return self.iter_metrics(group)

    def stream_training_metrics(self) -> Iterator[TrialMetrics]:
        """Deprecated form of `iter_metrics("training")`."""
        warn_renamed("Trial.stream_training_metrics", 'Trial.iter_metrics("training")')
        return self.iter_metrics("training")

    def stream_validation_metrics(self) -> Iterator[TrialMetrics]:
        """Deprecated form of `iter_metrics("validation")`."""
        warn_renamed("Trial.stream_validation_metrics", 'Trial.iter_metrics("validation")')
        return self.iter_metrics("validation")

    def metrics_frame(self, group: str | None = "validation") -> Any:
        """Return metrics and hyperparameters as a pandas DataFrame; needs the extra `pandas`."""
        return frames.metrics_frame(self.iter_metrics(group), {self.id: self.effective_hparams})

    def iter_logs(
        self,
        follow: bool = False,
        *,
        head: int | None = None,
        tail: int | None = None,
        container_ids: Sequence[str] | None = None,
        rank_ids: Sequence[int] | None = None,
        stdtypes: Sequence[str] | None = None,
        min_level: LogLevel | None = None,
        timestamp_before: trial_logs.Time | None = None,
        timestamp_after: trial_logs.Time | None = None,
        sources: Sequence[str] | None = None,
        search_text: str | None = None,
    ) -> Iterator[str]:
        """Yield the log lines of the trial, each with its time in UTC and its rank.

        Args:
            follow: wait for new lines until the trial ends.
            head: only the first N lines.
            tail: only the last N lines.
            rank_ids: only lines of these ranks.
            stdtypes: only lines of these streams: "stdout", "stderr".
            min_level: only lines with this log level or a higher one.
            timestamp_before: only lines written before; a text in RFC 3339, seconds since 1970, or a datetime.
            timestamp_after: only lines written after.
            search_text: only lines that contain this text.
            container_ids: accepted; there are no containers.
            sources: accepted; all lines come from the trial itself.
        """
        for name, given in (("container_ids", container_ids), ("sources", sources)):
            if given:
                logger.warning("%s has no effect: trials run as processes of this machine", name)
        only = LogFilter(
            ranks=tuple(rank_ids or ()),
            streams=tuple(stdtypes or ()),
            level=None if min_level is None else LogLevel(min_level).value,
            text=search_text,
            before=trial_logs.seconds_of("timestamp_before", timestamp_before),
            after=trial_logs.seconds_of("timestamp_after", timestamp_after),
        )
        return trial_logs.iter_lines(self._session, self.id, only, follow=follow, head=head, tail=tail)

    def logs(self, follow: bool = False, **chosen: Any) -> Iterator[str]:
        """Deprecated name of `iter_logs`."""
        warn_renamed("Trial.logs", "Trial.iter_logs")
        return self.iter_logs(follow, **chosen)

    def list_checkpoints(
        self,
        sort_by: checkpoint_lists.SortBy | None = None,
        order_by: OrderBy | None = None,
        max_results: int | None = None,
    ) -> list[Checkpoint]:
        """Return the complete checkpoints; by default the best by the searcher metric come first.

        `sort_by` is the name of a validation metric or a CheckpointSortBy.
        """
        found, experiment = self._checkpoints()
        return checkpoint_lists.listed(
            found,
            sort_by,
            order_by,
            max_results,
            metric=experiment.metric,
            smaller_is_better=experiment.smaller_is_better,
        )

    def list_outputs(self) -> list[Output]:
        """Return a list with the output that batch inference uploaded; empty if nothing was uploaded."""
        return outputs_of_trial(self._session, self.id)

    def get_checkpoints(
        self, sort_by: checkpoint_lists.SortBy | None = None, order_by: OrderBy | None = None
    ) -> list[Checkpoint]:
        """Deprecated name of `list_checkpoints`."""
        warn_renamed("Trial.get_checkpoints", "Trial.list_checkpoints")
        return self.list_checkpoints(sort_by, order_by)

    def top_checkpoint(self, sort_by: str | None = None, smaller_is_better: bool | None = None) -> Checkpoint:
        """Return the best checkpoint by the searcher metric, or by another metric and its direction (deprecated)."""
        warn_renamed("Trial.top_checkpoint", "Trial.list_checkpoints(max_results=1)")
        return self._select(best=True, sort_by=sort_by, smaller_is_better=smaller_is_better)

    def select_checkpoint(
        self,
        latest: bool = False,
        best: bool = False,
        uuid: str | None = None,
        sort_by: str | None = None,
        smaller_is_better: bool | None = None,
    ) -> Checkpoint:
        """Return the latest checkpoint, the best one, or the one with an id: exactly one of these (deprecated).

        `sort_by` and `smaller_is_better` are only allowed with `best`.
        """
        warn_renamed("Trial.select_checkpoint", "Trial.list_checkpoints")
        return self._select(latest, best, uuid, sort_by, smaller_is_better)

    def _select(
        self,
        latest: bool = False,
        best: bool = False,
        uuid: str | None = None,
        sort_by: str | None = None,
        smaller_is_better: bool | None = None,
    ) -> Checkpoint:
        """Return one checkpoint: the latest, the best, or the one with an id."""
        # Determined raised AssertionError in all three cases, and programs may catch it.
        if sum((latest, best, uuid is not None)) != 1:
            raise AssertionError("exactly one of latest, best and uuid must be given")
        if (sort_by is not None or smaller_is_better is not None) and not best:
            raise AssertionError("sort_by and smaller_is_better require best=True")
        found, experiment = self._checkpoints()
        if best:
            found = checkpoint_lists.best(
                found,
                sort_by,
                smaller_is_better,
                metric=experiment.metric,
                configured_direction=experiment.smaller_is_better,
            )
        elif latest:
            found = checkpoint_lists.newest_first(found)
        else:
            found = [checkpoint for checkpoint in found if checkpoint.uuid == uuid]
        if not found:
            which = "latest" if latest else "best" if best else repr(uuid)
            raise AssertionError(f"trial {self.id} has no such checkpoint: {which}")
        return found[0]

    def kill(self) -> None:
        """Kill the trial's processes; work since its last checkpoint is lost. The search continues without the trial.

        A runner reacts within a second. If the experiment is not running, the next runner does it first.
        """
        from determined.experiment.control import kill_live_trial

        def request_kill(store: Store) -> None:
            trial = store.experiments.trial(self.id)
            # Not an error: clean-up code of programs kills without asking for the state.
            if trial.state not in TRIAL_ENDED:
                kill_live_trial(store, trial)

        self._session.write(request_kill)

    def _checkpoints(self) -> tuple[list[Checkpoint], experiment_records.Experiment]:
        """Return all checkpoints, newest first, and the experiment."""

        def read(store: Store) -> tuple[list[Checkpoint], experiment_records.Experiment]:
            trial = store.experiments.trial(self.id)
            experiment = store.experiments.get(trial.experiment_id)
            rows = store.checkpoints(trial.id)
            return [Checkpoint(self._session, row, trial, experiment) for row in rows], experiment

        return self._session.read(read)
