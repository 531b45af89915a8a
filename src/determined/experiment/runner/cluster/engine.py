"""Create the engine of an experiment that runs on a Ray cluster: what its nodes need, and the mark in the storage."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from determined.checkpoint_storage.base import CheckpointStorage
from determined.config.engine import EngineChoice
from determined.engines.ray.engine import NodeData, RayEngine
from determined.engines.ray.versions import versions
from determined.errors import DeterminedError, InvalidExperimentException
from determined.experiment.checkpoints.storage_lookup import configured_storage
from determined.experiment.code.packing import pack_code
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.settings import Settings
from determined.experiment.runner.trials.environment import user_variables
from determined.store.experiment_records import Experiment as Record
from determined.store.workers.local_worker_store import is_shared

logger = logging.getLogger("determined.experiment")

_SETUP = "determined.experiment.runner.cluster.node_setup:ExperimentNodeSetup"


@contextmanager
def ray_engine(
    choice: EngineChoice, record: Record, store_place: str, files: ExperimentFiles, settings: Settings
) -> Iterator[RayEngine]:
    """Yield an engine for the trials of an experiment on the cluster; raise EngineError if it cannot be reached.

    The experiment is recorded in the store at this place.
    """
    if files.place is not None:
        raise InvalidExperimentException(
            f"its trials work in {files.place}, which other machines do not have: create it with a model directory"
        )
    config = settings.config
    storage = configured_storage(config)
    mark = f"det-{uuid.uuid4()}"
    # Every node must find it: a node with another directory of the same name would lose checkpoints.
    storage.write_mark(mark)
    code = files.root / "code.tar"
    try:
        data = {
            "config": config.plain,
            "versions": versions(),
            # Those that are given by name only are known here and not on the nodes.
            "variables": user_variables(config),
            "storage_mark": mark,
            # Another store is a file of this machine, whose calls are forwarded.
            "store": [store_place, record.id, record.key] if is_shared(store_place) else None,
            "code_hash": pack_code(files.code, code),
        }
        with RayEngine(
            choice.address,
            settings.slots_per_trial,
            NodeData(record.key, _SETUP, data, code, store_is_server=is_shared(store_place)),
            single_node=bool(config.resources.is_single_node),
            silence_seconds=config.resources.node_timeout,
        ) as engine:
            # The bridge has passed it on to Ray before the engine is ready.
            code.unlink(missing_ok=True)
            yield engine
    finally:
        code.unlink(missing_ok=True)
        _delete_mark(storage, mark)


def _delete_mark(storage: CheckpointStorage, mark: str) -> None:
    """Delete the mark. If that fails, the experiment does not: a later run deletes the mark when it is old."""
    try:
        storage.delete_mark(mark)
    except (DeterminedError, OSError) as error:
        logger.warning("the mark %s could not be deleted from the checkpoint storage: %s", mark, error)
