"""`Output`: the files that the ranks of a trial uploaded in batch inference."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from determined.experimental.results.html_tables import Cells, ShownList, table_of_one
from determined.experimental.session import Session, utc_datetime

if TYPE_CHECKING:
    from determined.store import experiment_records, output_records
    from determined.store.store import Store


@dataclass(frozen=True)
class Upload:
    """One upload of a rank; `batches` is the number of the rank's batches that had begun, over all attempts."""

    rank: int
    batches: int
    files: dict[str, int]  # size in bytes by name below the rank's directory
    report_time: datetime | None


class Output:
    """The files that batch inference uploaded.

    Attributes have the values of the last read; `reload()` reads them again.
    """

    def __init__(self, session: Session, row: output_records.Output, experiment: experiment_records.Experiment) -> None:
        self._session = session
        self._row = row
        self._experiment = experiment

    def __repr__(self) -> str:
        return f"Output(uuid={self.uuid!r}, trial_id={self.trial_id}, files={len(self.resources)})"

    def _repr_html_(self) -> str:
        return table_of_one(self)

    def _cells(self) -> Cells:
        return {
            "UUID": self.uuid,
            "Experiment": self.experiment_id,
            "Trial": self.trial_id,
            "Files": len(self.resources),
            "Bytes": sum(self.resources.values()),
        }

    def _settings(self) -> Cells:
        return {}

    @property
    def uuid(self) -> str:
        """The id of the output, which is also the name of its directory in the checkpoint storage."""
        return self._row.uuid

    @property
    def trial_id(self) -> int:
        """The id of the output's trial; a trial has at most one output."""
        return self._row.trial_id

    @property
    def experiment_id(self) -> int:
        """The id of the output's experiment."""
        return self._experiment.id

    @property
    def resources(self) -> dict[str, int]:
        """The size in bytes of each file by path (`rank_0/<file>`)."""
        return self._row.resources

    @property
    def uploads(self) -> list[Upload]:
        """The uploads, oldest first; a later file replaces an earlier one of the same rank and name."""
        return [Upload(each.rank, each.batches, each.files, utc_datetime(each.reported)) for each in self._row.uploads]

    def reload(self) -> None:
        """Read the output's record from the store again."""
        self._row = self._session.read(lambda store: store.outputs.get(self.uuid))

    def download(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the files to a directory (default: `outputs/<uuid>`) and return its path.

        A directory with an earlier copy is updated; one that holds anything else raises FileExistsError.
        """
        from determined.experiment.checkpoints.output_download import download_output

        self.reload()
        target = Path("outputs", self.uuid) if path is None else Path(path)
        download_output(self._experiment, self._row, target)
        return str(target)


def outputs_of_trial(session: Session, trial_id: int) -> list[Output]:
    """Return a list with the output of a trial; empty if it has uploaded nothing."""

    def read(store: Store) -> list[Output]:
        experiment = store.experiments.get(store.experiments.trial(trial_id).experiment_id)
        found = store.outputs.find(trial_id)
        return ShownList([Output(session, found, experiment)] if found is not None and found.uploads else [])

    return session.read(read)


def outputs_of_experiment(session: Session, experiment_id: int) -> list[Output]:
    """Return the outputs of all trials of an experiment, in the order of the trials."""

    def read(store: Store) -> list[Output]:
        experiment = store.experiments.get(experiment_id)
        found = store.outputs.of_experiment(experiment_id)
        return ShownList(Output(session, row, experiment) for row in found if row.uploads)

    return session.read(read)


def output_with_id(session: Session, uuid: str) -> Output:
    """Return the output with this id."""

    def read(store: Store) -> Output:
        found = store.outputs.get(uuid)
        experiment = store.experiments.get(store.experiments.trial(found.trial_id).experiment_id)
        return Output(session, found, experiment)

    return session.read(read)
