"""`Model` and `ModelVersion`: models of the registry and their versions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from determined.config.flattening import flat
from determined.errors import NotFoundException
from determined.experimental import metrics
from determined.experimental.checkpoint import Checkpoint
from determined.experimental.enums import DownloadMode, OrderBy
from determined.experimental.metrics import TrialMetrics
from determined.experimental.old_names import raise_missing, warn_renamed
from determined.experimental.results.html_tables import Cells, ShownList, table_of_one
from determined.experimental.session import Session, utc_datetime
from determined.store.substores.registry import Edit

if TYPE_CHECKING:
    from determined.store.store import Store
    from determined.store.substores import registry


def read_checkpoint(session: Session, uuid: str) -> Checkpoint:
    """Return the checkpoint with this id, with its trial and experiment."""

    def read(store: Store) -> Checkpoint:
        row = store.upkeep.checkpoint(uuid)
        trial = store.experiments.trial(row.trial_id)
        return Checkpoint(session, row, trial, store.experiments.get(trial.experiment_id))

    # Three reads in one call, so that all are retried together.
    return session.read(read)


class _Registered:
    """Common base of models and their versions."""

    _session: Session
    _row: registry.Model | registry.ModelVersion

    def _repr_html_(self) -> str:
        return table_of_one(self)

    def _cells(self) -> Cells:
        return {
            "Name": self.name,
            "Labels": self.labels,
            "Notes": self.notes,
            "Created": self.creation_time,
            "Updated": self.last_updated_time,
        }

    def _settings(self) -> Cells:
        return flat(self.metadata)

    @property
    def name(self) -> str:
        return self._row.name

    @property
    def notes(self) -> str:
        return self._row.notes

    @property
    def metadata(self) -> dict[str, Any]:
        return self._row.metadata

    @property
    def labels(self) -> list[str]:
        return self._row.labels

    @property
    def creation_time(self) -> datetime | None:
        """When the object was registered."""
        return utc_datetime(self._row.created)

    @property
    def last_updated_time(self) -> datetime | None:
        """When the object was changed last."""
        return utc_datetime(self._row.updated)

    def set_notes(self, notes: str) -> None:
        """Change the notes."""
        self._edit(Edit(notes=notes))

    def set_labels(self, labels: Sequence[str]) -> None:
        """Replace all labels."""
        self._edit(Edit(labels=labels))

    def add_metadata(self, metadata: dict[str, Any]) -> None:
        """Add metadata; existing keys get the new value."""
        self._edit(Edit(set_metadata=metadata))

    def remove_metadata(self, keys: Sequence[str]) -> None:
        """Remove keys from the metadata."""
        self._edit(Edit(remove_metadata=keys))

    def _edit(self, edit: Edit) -> None:
        raise NotImplementedError


class ModelVersion(_Registered):
    """A checkpoint that is registered as a version of a model. A registered checkpoint cannot be deleted."""

    _row: registry.ModelVersion

    def __init__(self, session: Session, row: registry.ModelVersion) -> None:
        self._session = session
        self._row = row

    def __repr__(self) -> str:
        return f"ModelVersion(model_id={self.model_id}, model_version={self.model_version})"

    def _cells(self) -> Cells:
        own = {"Model": self.model_id, "Version": self.model_version, "Checkpoint": self._row.checkpoint}
        return {**own, **super()._cells()}

    @property
    def model_id(self) -> int:
        """The id of the model that this is a version of."""
        return self._row.model_id

    @property
    def model_version(self) -> int:
        """The number of the version, from 1 on."""
        return self._row.number

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that is registered as this version."""
        return read_checkpoint(self._session, self._row.checkpoint)

    def set_name(self, name: str) -> None:
        """Change the name of the version."""
        self._edit(Edit(name=name))

    def reload(self) -> None:
        """Read the version's record from the store again."""
        versions = self._session.read(lambda store: store.registry.versions(self.model_id))
        found = [row for row in versions if row.number == self.model_version]
        if not found:
            raise NotFoundException(f"Version {self.model_version} of model {self.model_id} not found: it was deleted.")
        self._row = found[0]

    def download(self, path: str | os.PathLike[str] | None = None, mode: DownloadMode = DownloadMode.AUTO) -> str:
        """Copy the files of the version's checkpoint to a directory: `Checkpoint.download`."""
        return self.checkpoint.download(path, mode)

    def load(
        self,
        path: str | os.PathLike[str] | None = None,
        trial_class: Any = None,
        trial_kwargs: dict[str, Any] | None = None,
        torch_load_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Download the version's checkpoint and return its trial with the saved weights: `Checkpoint.load`."""
        return self.checkpoint.load(path, trial_class, trial_kwargs, torch_load_kwargs, **kwargs)

    def get_metrics(self, group: str | None = None) -> Iterator[TrialMetrics]:
        """Deprecated name of `iter_metrics`."""
        warn_renamed("ModelVersion.get_metrics", "ModelVersion.iter_metrics")
        return self.iter_metrics(group)

    def iter_metrics(self, group: str | None = None) -> Iterator[TrialMetrics]:
        """Yield the reports of runs that use this version, run by run and by step."""
        users = self._session.read(lambda store: store.lineage.users_of_version(self.model_id, self.model_version))
        return metrics.iter_metrics(self._session, users, group)

    def delete(self) -> None:
        """Delete the version; the checkpoint is kept."""
        self._session.write(lambda store: store.registry.delete_version(self.model_id, self.model_version))

    def _edit(self, edit: Edit) -> None:
        """Change the version in the store and in this object."""
        self._row = self._session.write(
            lambda store: store.registry.edit_version(self.model_id, self.model_version, edit)
        )


class Model(_Registered):
    """A named model of the registry with numbered versions."""

    _row: registry.Model

    def __init__(self, session: Session, row: registry.Model) -> None:
        self._session = session
        self._row = row

    if not TYPE_CHECKING:  # hidden from type checkers, for which unknown names must be errors

        def __getattr__(self, name: str) -> NoReturn:
            raise_missing("Model", name)

    def __repr__(self) -> str:
        return f"Model(id={self.model_id}, name={self.name!r})"

    def _cells(self) -> Cells:
        more = {"Versions": self._row.versions, "Description": self.description, "Owner": self.username}
        return {"ID": self.model_id, **super()._cells(), **more, "Archived": self.archived or None}

    @property
    def model_id(self) -> int:
        """The id of the model in the store."""
        return self._row.id

    @property
    def description(self) -> str:
        """The description, a text shown in lists."""
        return self._row.description

    @property
    def username(self) -> str:
        """The user who created the model."""
        return self._row.owner

    @property
    def workspace_id(self) -> int | None:
        """Always None: there are no workspaces; use separate stores."""
        return None

    @property
    def archived(self) -> bool:
        """Whether lists leave the model out by default."""
        return self._row.archived

    def reload(self) -> None:
        """Read the model's record from the store again."""
        self._row = self._session.read(lambda store: store.registry.model(self.model_id))

    def register_version(self, checkpoint_uuid: str) -> ModelVersion:
        """Register a checkpoint as the next version; from then on it cannot be deleted."""
        row = self._session.write(lambda store: store.registry.register(self.model_id, checkpoint_uuid))
        self.reload()
        return ModelVersion(self._session, row)

    def get_version(self, version: int = -1) -> ModelVersion | None:
        """Return the version with this number, or the latest one for -1; None if there is none."""
        versions = self.list_versions()
        wanted = [found for found in versions if version in (-1, found.model_version)]
        return wanted[0] if wanted else None

    def list_versions(self, order_by: OrderBy = OrderBy.DESC) -> list[ModelVersion]:
        """Return the versions, newest first by default."""
        rows = self._session.read(lambda store: store.registry.versions(self.model_id))
        # The store returns the newest first.
        ordered = rows if order_by is OrderBy.DESC else rows[::-1]
        return ShownList(ModelVersion(self._session, row) for row in ordered)

    def get_versions(self, order_by: OrderBy = OrderBy.DESC) -> list[ModelVersion]:
        """Deprecated name of `list_versions`."""
        warn_renamed("Model.get_versions", "Model.list_versions")
        return self.list_versions(order_by)

    def set_description(self, description: str) -> None:
        """Change the description."""
        self._edit(Edit(description=description))

    def archive(self) -> None:
        """Archive the model: no versions can be registered any more."""
        self._edit(Edit(archived=True))

    def unarchive(self) -> None:
        """Undo `archive`: versions can be registered again."""
        self._edit(Edit(archived=False))

    def delete(self) -> None:
        """Delete the model and its versions; the checkpoints are kept."""
        self._session.write(lambda store: store.registry.delete_model(self.model_id))

    def _edit(self, edit: Edit) -> None:
        self._row = self._session.write(lambda store: store.registry.edit_model(self.model_id, edit))
