"""Preview what an experiment would do and need, without starting it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined import paths
from determined.checkpoint_storage.build import build_from_argument
from determined.config.experiment import ExperimentConfig
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
    slots: int
    slots_per_trial: int
    at_once: int
    checkpoints_kept: int  # maximum number after the experiment has ended
    storage: str
    code: CodeCopy
    code_bytes: int  # of all trials together
    free_bytes: int | None  # in the checkpoint directory; None for a remote storage
    hook_environment: str | None  # virtual environment of the startup hook; None without a hook


def plan_experiment(
    config: ExperimentConfig, model_dir: Path, *, include: Sequence[Path] = (), slots: int | None = None
) -> Plan:
    """Return the plan of an experiment; raise if a trial needs more slots than there are."""
    plain = config.plain()
    block = plain.get("checkpoint_storage") or {}
    named = {"directory", "shared_fs", "s3", "gcs", "azure"}
    own_place = str(paths.checkpoints_dir())
    storage = configured_storage(plain) if block.get("type") in named else build_from_argument(own_place)
    present = find_slots(slots, os.environ).count
    per_trial = max(1, (plain.get("resources") or {}).get("slots_per_trial", 1))
    check_slots(settings_of(plain), present)
    most = (plain.get("resources") or {}).get("max_slots") or present
    search = preview(config.searcher, config.hyperparameters, slots=present)
    room = min(present, most) // per_trial
    roots = storage.local_roots()
    code = measure_model_dir(model_dir, include, [*roots, *paths.store_files(), paths.data_dir()])
    return Plan(
        search=search,
        slots=present,
        slots_per_trial=per_trial,
        at_once=min(room, search.at_once) if search.at_once else room,
        checkpoints_kept=_kept(block, search.trials),
        storage=storage.name,
        code=code,
        code_bytes=code.size * (search.trials + 1),
        free_bytes=_free(roots[0]) if roots else None,
        hook_environment=environment_shown() if code.has_hook and is_wanted(plain) else None,
    )


def _kept(block: dict[str, Any], trials: int) -> int:
    of_a_trial = block.get("save_trial_best", 1) + block.get("save_trial_latest", 1)
    return max(1, int(of_a_trial)) * trials + int(block.get("save_experiment_best", 0))


def _free(directory: Path) -> int:
    while not directory.exists():
        directory = directory.parent
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize
