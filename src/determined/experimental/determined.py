"""`Determined`: the entry point of the SDK, with access to all objects of a store."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from determined.errors import NotFoundException
from determined.experimental import metrics
from determined.experimental.charts.comparison import Compared, Comparison, compare
from determined.experimental.charts.selection import MOST_TRIALS
from determined.experimental.checkpoint import Checkpoint
from determined.experimental.enums import ExperimentSortBy, ExperimentState, ModelSortBy, OrderBy
from determined.experimental.experiment import Experiment
from determined.experimental.metrics import TrialMetrics
from determined.experimental.model import Model, read_checkpoint
from determined.experimental.old_names import raise_missing, warn_renamed
from determined.experimental.output import Output, output_with_id
from determined.experimental.results import lists
from determined.experimental.results.html_tables import ShownList
from determined.experimental.session import Session
from determined.experimental.trial import Trial
from determined.store.databases import location as places
from determined.store.process import this_user

if TYPE_CHECKING:
    from determined.curves.chart_data import Axis
    from determined.store.store import Store
    from determined.store.substores import registry

logger = logging.getLogger("determined.experimental")

_STORE_SUFFIXES = (".sqlite", ".sqlite3", ".db")


class Determined:
    """The objects of a store: experiments, trials, checkpoints and models.

    No network is used except for a database server.

    Args:
        master: the path of a store file or a `postgresql://` URL; default: the store that DET_STORE names, else the
            user's own. The address of a master is accepted and ignored: the local store is used.
        user, password, cert_path, cert_name, noverify: accepted and ignored.
    """

    def __init__(
        self,
        master: str | None = None,
        user: str | None = None,
        password: str | None = None,
        cert_path: str | None = None,
        cert_name: str | None = None,
        noverify: bool = False,
    ) -> None:
        # Programs written for a cluster pass its address, and must run unchanged.
        if master is not None and not _names_a_store(master):
            logger.info("there is no master to log in to: experiments are stored in the local store")
            master = None
        elif user is not None or password is not None:
            logger.info("there is no server to log in to: user and password are not used")
        self._session = Session(None if master is None else places.resolve(master))

    if not TYPE_CHECKING:  # hidden from type checkers, for which unknown names must be errors

        def __getattr__(self, name: str) -> NoReturn:
            raise_missing("Determined", name)

    def __enter__(self) -> Determined:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; later calls open it again."""
        self._session.close()

    # Experiments

    def create_experiment(
        self,
        config: str | os.PathLike[str] | dict[str, Any],
        model_dir: str | os.PathLike[str] | None = None,
        includes: Sequence[str | os.PathLike[str]] | None = None,
        project_id: int | None = None,
        template: str | None = None,
        *,
        paused: bool = False,
        blocking: bool = False,
        engine: str = "local",
    ) -> Experiment:
        """Validate the configuration, copy the code and add the experiment to the queue; return immediately.

        The queue runs it in a separate process, which outlives this one, when slots are free; `det queue` shows it. The
        log of that process is `runner.log` in the experiment's directory.

        Args:
            config: the path of a file, or a dict.
            model_dir: the directory of the code; default: no code.
            includes: additional files and directories to copy.
            project_id: accepted; there are no projects.
            template: accepted; there are no templates.
            paused: only create the experiment; `activate()` runs it later.
            blocking: return when the experiment has ended.
            engine: the engine that runs it; only "local" (this machine) exists.
        """
        if not isinstance(config, (str, os.PathLike, dict)):
            raise ValueError(f"config must be the path of a file or a dict, got {config!r}")
        # Checked now, so that a program that names another engine does not run on this machine by mistake.
        if engine != "local":
            raise ValueError(f"unknown engine {engine!r}: expected 'local'")
        for name, given in (("project_id", project_id), ("template", template)):
            if given is not None:
                logger.warning("%s has no effect: there are no projects and templates", name)
        experiment = self.get_experiment(self._create(config, model_dir, includes or (), paused))
        if not paused:
            experiment._enqueue()
            if blocking:
                experiment.wait()
        return experiment

    def get_experiment(self, experiment_id: int) -> Experiment:
        """Return the experiment with this id."""
        return Experiment(self._session, self._session.read(lambda store: store.experiments.get(experiment_id)))

    def list_experiments(
        self,
        sort_by: ExperimentSortBy | None = None,
        order_by: OrderBy | None = None,
        experiment_ids: Sequence[int] | None = None,
        labels: Sequence[str] | None = None,
        users: Sequence[str] | None = None,
        states: Sequence[ExperimentState] | None = None,
        name: str | None = None,
        project_id: int | None = None,
        *,
        archived: bool = True,
    ) -> list[Experiment]:
        """Return the experiments that match all criteria, sorted by id unless another order is given.

        Args:
            labels: the experiment has all of these labels.
            users: one of these users owns the experiment.
            name: a part of its name, ignoring case.
            project_id: accepted; there are no projects.
            archived: include archived experiments.
        """
        if project_id is not None:
            logger.warning("project_id has no effect: there are no projects")
        # Filtered in Python: the criteria are those of the SDK, not of the database.
        rows = self._session.read(lambda store: store.experiments.list(limit=None, archived=archived))
        found = lists.matching_experiments(rows, experiment_ids, labels, users, states, name)
        ordered = lists.ordered_experiments(found, sort_by or ExperimentSortBy.ID, order_by or OrderBy.ASC)
        return ShownList(Experiment(self._session, row) for row in ordered)

    # Trials and checkpoints

    def get_trial(self, trial_id: int) -> Trial:
        """Return the trial with this id."""
        return Trial(self._session, self._session.read(lambda store: store.experiments.trial(trial_id)))

    def get_checkpoint(self, uuid: str) -> Checkpoint:
        """Return the checkpoint with this id."""
        return read_checkpoint(self._session, uuid)

    def get_output(self, uuid: str) -> Output:
        """Return the output with this id."""
        return output_with_id(self._session, uuid)

    def compare(
        self,
        runs: Iterable[Compared] | Compared,
        metric: str | None = None,
        *,
        axis: Axis = "batches",
        max_trials: int = MOST_TRIALS,
    ) -> Comparison:
        """Return trials side by side. A notebook shows their curves and a table, elsewhere the table is text.

        Args:
            runs: trials, ids of trials, and experiments, which stand for all their trials.
            metric: the metric that is drawn first, as `group/name` or as a name alone; default: that of the search.
            axis: "batches", "epochs" or "time".
            max_trials: the maximum number of curves. If there are more, the trials in `runs` come first, then the best
                ones of each experiment.
        """
        return compare(self._session, runs, metric, axis=axis, max_trials=max_trials)

    def iter_trials_metrics(self, trial_ids: Sequence[int], group: str | None = None) -> Iterator[TrialMetrics]:
        """Yield the metrics that several trials reported for a group, trial by trial and by step."""
        return metrics.iter_metrics(self._session, trial_ids, group)

    def stream_trials_metrics(self, trial_ids: Sequence[int], group: str | None = None) -> Iterator[TrialMetrics]:
        """Deprecated name of `iter_trials_metrics`."""
        warn_renamed("stream_trials_metrics", "iter_trials_metrics")
        return self.iter_trials_metrics(trial_ids, group)

    def stream_trials_training_metrics(self, trial_ids: Sequence[int]) -> Iterator[TrialMetrics]:
        """Deprecated form of `iter_trials_metrics(trial_ids, "training")`."""
        warn_renamed("stream_trials_training_metrics", 'iter_trials_metrics(..., "training")')
        return self.iter_trials_metrics(trial_ids, "training")

    def stream_trials_validation_metrics(self, trial_ids: Sequence[int]) -> Iterator[TrialMetrics]:
        """Deprecated form of `iter_trials_metrics(trial_ids, "validation")`."""
        warn_renamed("stream_trials_validation_metrics", 'iter_trials_metrics(..., "validation")')
        return self.iter_trials_metrics(trial_ids, "validation")

    # Models

    def create_model(
        self,
        name: str,
        description: str | None = "",
        metadata: dict[str, Any] | None = None,
        labels: Sequence[str] | None = None,
        workspace_name: str | None = None,
    ) -> Model:
        """Add a model to the registry; its name must be new."""
        if workspace_name is not None:
            logger.warning("workspace_name has no effect: there are no workspaces")
        row = self._session.write(
            lambda store: store.registry.create_model(
                name,
                description=description or "",
                labels=labels or (),
                metadata=metadata,
                owner=this_user(),
            )
        )
        return Model(self._session, row)

    def get_model(self, identifier: str | int) -> Model:
        """Return the model with this name or id; a text of digits is tried as a name first."""

        def read(store: Store) -> registry.Model:
            if isinstance(identifier, int):
                return store.registry.model(identifier)
            # A name may consist of digits, so it is tried before the id.
            found = store.registry.find_model(identifier)
            if found is not None:
                return found
            if identifier.isdecimal():
                return store.registry.model(int(identifier))
            raise NotFoundException.of("model", repr(identifier))

        return Model(self._session, self._session.read(read))

    def get_model_by_id(self, model_id: int) -> Model:
        """Deprecated form of `get_model(id)`."""
        warn_renamed("get_model_by_id", "get_model")
        return self.get_model(model_id)

    def list_models(
        self,
        sort_by: ModelSortBy = ModelSortBy.NAME,
        order_by: OrderBy = OrderBy.ASC,
        name: str | None = None,
        description: str | None = None,
        model_id: int | None = None,
        workspace_names: Sequence[str] | None = None,
        workspace_ids: Sequence[int] | None = None,
    ) -> list[Model]:
        """Return the models whose name and description contain the given texts. Workspaces are ignored."""
        if workspace_names or workspace_ids:
            logger.warning("workspace arguments have no effect: workspaces do not exist here")
        rows = self._session.read(lambda store: store.registry.models())
        ordered = lists.ordered_models(lists.matching_models(rows, name, description, model_id), sort_by, order_by)
        return ShownList(Model(self._session, row) for row in ordered)

    def get_models(self, sort_by: ModelSortBy = ModelSortBy.NAME, order_by: OrderBy = OrderBy.ASC) -> list[Model]:
        """Deprecated name of `list_models`."""
        warn_renamed("get_models", "list_models")
        return self.list_models(sort_by, order_by)

    def get_model_labels(self) -> list[str]:
        """Return all labels of models that are not archived, most frequent first."""
        counts: dict[str, int] = {}
        for row in self._session.read(lambda store: store.registry.models()):
            for label in row.labels if not row.archived else ():
                counts[label] = counts.get(label, 0) + 1
        return sorted(counts, key=lambda label: (-counts[label], label))

    def _create(
        self,
        config: str | os.PathLike[str] | dict[str, Any],
        model_dir: str | os.PathLike[str] | None,
        includes: Sequence[str | os.PathLike[str]],
        paused: bool,
    ) -> int:
        """Create an experiment and return its id; log remarks on the configuration and skipped files."""
        from determined.config.experiment import load_experiment
        from determined.experiment.creation.create import create_experiment

        loaded = load_experiment(config if isinstance(config, dict) else Path(config))
        for remark in (*loaded.notes, *loaded.warnings):
            logger.warning("%s", remark)
        # Without a directory the experiment has no code; an empty one is copied.
        with tempfile.TemporaryDirectory(prefix="det-no-code-") as nothing:
            created = self._session.write(
                lambda store: create_experiment(
                    loaded,
                    Path(nothing if model_dir is None else model_dir),
                    store,
                    include=[Path(path) for path in includes],
                    paused=paused,
                )
            )
        if created.code.left_out:
            logger.warning("not copied from the model directory: %s", ", ".join(created.code.left_out[:10]))
        return created.experiment_id


def _names_a_store(master: str) -> bool:
    """Return whether a text is a path or a database URL, not the address of a master (`host:8080`, `https://host`)."""
    if "://" in master:
        return not master.startswith(("http://", "https://"))
    # A file without a known suffix counts only if it exists, since `host` could also be a master.
    return "/" in master or os.sep in master or Path(master).suffix in _STORE_SUFFIXES or Path(master).is_file()
