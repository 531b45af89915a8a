"""Preview what an experiment would do and need, without starting it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from determined import paths
from determined.checkpoint_storage.build import build_from_argument
from determined.config.blocks.storage import LocalStorage
from determined.config.engine import parse_engine
from determined.config.experiment import ExperimentConfig
from determined.config.stored import StoredConfig, StoredStorage
from determined.engines.slots import find_slots
from determined.experiment.checkpoints.storage_lookup import configured_storage
from determined.experiment.code.directories import CodeCopy, measure_model_dir
from determined.experiment.code.startup_hook import environment_shown, is_wanted
from determined.experiment.runner.settings import check_slots, settings_of
from determined.searchers.preview import Preview, preview


@dataclass(frozen=True)
class Plan:
    """The preview of a search and its resources. The size of checkpoints is unknown until the first one exists."""

    search: Preview
    slots: int | None  # None if a cluster decides
    slots_per_trial: int
    at_once: int | None  # None if a cluster decides, and the search has no limit
    checkpoints_kept: int  # maximum number after the experiment has ended
    storage: str
    code: CodeCopy
    code_bytes: int  # of all trials together
    free_bytes: int | None  # in the checkpoint directory; None for a remote storage
    hook_environment: str | None  # virtual environment of the startup hook; None without a hook


def plan_experiment(
    config: ExperimentConfig, model_dir: Path, *, include: Sequence[Path] = (), slots: int | None = None
) -> Plan:
    """Return the plan of an experiment; raise if a trial needs more slots than this machine has, if it runs here."""
    stored = StoredConfig(config.plain())
    # The default directory is not in the configuration before the experiment is created.
    is_default = isinstance(config.checkpoint_storage, LocalStorage)
    storage = build_from_argument(str(paths.checkpoints_dir())) if is_default else configured_storage(stored)
    per_trial = stored.resources.slots
    is_local = parse_engine(stored.resources.engine, "resources.engine").is_local
    # Slots of a cluster may come and go; --slots limits those of this run.
    present = find_slots(slots, os.environ).count if is_local else slots
    if is_local:
        check_slots(settings_of(stored), present or 0)
    search = preview(config.searcher, config.hyperparameters, slots=present)
    limits = [limit for limit in (present, config.resources.max_slots) if limit is not None]
    room = min(limits) // per_trial if limits else None
    roots = storage.local_roots()
    code = measure_model_dir(model_dir, include, [*roots, *paths.store_files(), paths.data_dir()])
    return Plan(
        search=search,
        slots=present,
        slots_per_trial=per_trial,
        at_once=min((most for most in (room, search.at_once or None) if most is not None), default=None),
        checkpoints_kept=_kept(stored.checkpoint_storage, search.trials),
        storage=storage.name,
        code=code,
        # The experiment's own copy, and one for each trial.
        code_bytes=code.size * (search.trials + 1),
        free_bytes=_free(roots[0]) if roots else None,
        hook_environment=environment_shown() if code.has_hook and is_wanted(stored) else None,
    )


def _kept(storage: StoredStorage, trials: int) -> int:
    """Return the largest number of checkpoints that the retention policy keeps."""
    # At least one per trial stays under any policy; one of the experiment's best may be among them.
    return max(1, storage.save_trial_best + storage.save_trial_latest) * trials + storage.save_experiment_best


def _free(directory: Path) -> int:
    """Return the free bytes of the file system in which a directory is, or will be created."""
    # The first checkpoint creates it.
    while not directory.exists():
        directory = directory.parent
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize
