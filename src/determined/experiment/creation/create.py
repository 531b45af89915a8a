"""Create an experiment: copy its code and write its rows, or leave nothing behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from determined import paths
from determined.config.defaults import complete, three_words
from determined.config.engine import parse_engine
from determined.config.experiment import LoadedExperiment
from determined.config.secrets.masking import mask_secrets
from determined.config.stored import StoredConfig
from determined.engines.base import Engine, Interpreter
from determined.engines.slots import find_slots
from determined.errors import InvalidExperimentException
from determined.experiment.checkpoints.storage_lookup import configured_storage
from determined.experiment.code import startup_hook
from determined.experiment.code.directories import CodeCopy, copy_code, copy_model_dir, record_code
from determined.experiment.code.hook_script import HookStopped
from determined.experiment.code.startup_hook import PreparedHook
from determined.experiment.creation import entrypoint_check
from determined.experiment.creation.masked_secrets import with_secrets
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.interrupts import Interrupts
from determined.experiment.runner.settings import Settings, check_slots, settings_of
from determined.sinks.selection import chosen_sinks
from determined.store.experiment_changes import NewExperiment
from determined.store.experiment_records import Experiment
from determined.store.process import this_user
from determined.store.store import Store


@dataclass(frozen=True)
class Created:
    """The id of a new experiment, and the size of the copied code."""

    experiment_id: int
    code: CodeCopy


def create_experiment(
    loaded: LoadedExperiment,
    model_dir: Path,
    store: Store,
    *,
    include: Sequence[Path] = (),
    paused: bool = False,
    slots: int | None = None,
    engine: Engine | None = None,
    fork_of: Experiment | None = None,
    in_place: bool = False,
    say: startup_hook.Say = startup_hook.logger.info,
) -> Created:
    """Create an experiment; raise if its slots, storage, warm start, startup hook or entrypoint cannot work.

    With `in_place` its trials work in the model directory itself, and the copy is only a record of the code, without
    data. For a fork the model directory is the other experiment's copy, which is copied as it is. `say` is called with
    lines for the user about the startup hook, which runs here because the entrypoint may import what it installs. For
    a cluster neither is run: its nodes may be able to do what this machine cannot.
    """
    validated = complete(
        loaded.config,
        now=time.time(),
        words=three_words(random.Random()),
        checkpoints=str(paths.checkpoints_dir()),
    )
    # Masked secrets of a forked or exported configuration must be provided now, not when the first trial fails.
    config = StoredConfig(with_secrets(validated.plain(), "this command with"))
    config.plain["startup_hook"] = startup_hook.is_wanted(config)
    settings = settings_of(config)
    # Everything that can be refused is checked before code is copied.
    is_local = parse_engine(config.resources.engine, "resources.engine").is_local
    if is_local:
        check_slots(settings, find_slots(slots, os.environ).count if engine is None else engine.slots)
    storage = configured_storage(config)
    # A storage that cannot be written is refused now, and not when the first trial has trained for hours.
    storage.probe()
    chosen_sinks(config.sinks, os.environ)  # raises here rather than in each trial
    _resolve_warm_start(config, store)
    key = str(uuid.uuid4())
    files = ExperimentFiles.for_key(key)
    try:
        leave_out = [*storage.local_roots(), *paths.store_files(), paths.data_dir()]
        if in_place:
            code = record_code(model_dir, files.code, leave_out)
            files.work_in(model_dir.resolve())
        elif fork_of is None:
            code = copy_model_dir(model_dir, include, files.code, leave_out)
        else:
            code = copy_code(model_dir, files.code)
        hook = _prepared_hook(files, config, say) if is_local else None
        # The check below runs in the warm process of that interpreter.
        if engine is not None:
            engine.use(Interpreter() if hook is None else hook.interpreter())
        place = files.place or files.code
        try:
            if is_local:
                entrypoint_check.check(settings.command, place, config, engine, hook)
            else:
                entrypoint_check.check_files(settings.command, place, config)
        except InvalidExperimentException as error:
            where = loaded.place_of("entrypoint")
            raise InvalidExperimentException(f"{where}: {error}" if where else str(error)) from None
        # The file before the row: a row without its configuration could never run.
        files.write_config(config.plain)
        experiment_id = store.experiments.create(_row(key, loaded, config, files, settings, fork_of, paused=paused))
    # BaseException: also after Ctrl-C no directory without a row is left.
    except BaseException:
        shutil.rmtree(files.root, ignore_errors=True)
        raise
    return Created(experiment_id, code)


def _prepared_hook(files: ExperimentFiles, config: StoredConfig, say: startup_hook.Say) -> PreparedHook | None:
    """Run the startup hook, which may take minutes. A signal ends the hook and then this process, leaving no files."""
    with Interrupts().listening() as interrupts:
        hook = None
        with suppress(HookStopped):
            hook = startup_hook.prepare(files, config, say=say, stopped=lambda: interrupts.request is not None)
    # Raised after the block, when the former handlers are installed again.
    if interrupts.signal == signal.SIGINT:
        raise KeyboardInterrupt
    if interrupts.signal is not None:
        raise SystemExit(128 + interrupts.signal)
    return hook


def _row(
    key: str,
    loaded: LoadedExperiment,
    config: StoredConfig,
    files: ExperimentFiles,
    settings: Settings,
    fork_of: Experiment | None,
    *,
    paused: bool,
) -> NewExperiment:
    """Return the store's row of the new experiment, with secrets masked."""
    return NewExperiment(
        key=key,
        name=config.name or "",
        description=config.description,
        labels=config.labels,
        config=mask_secrets(config.plain),
        original=loaded.shown_original,
        seed=config.reproducibility.experiment_seed or 0,
        code_dir=str(files.code),
        owner=this_user(),
        created=time.time(),
        paused=paused,
        metric=settings.metric,
        smaller_is_better=settings.smaller_is_better,
        parent_id=None if fork_of is None else fork_of.id,
    )


def _resolve_warm_start(config: StoredConfig, store: Store) -> None:
    """Replace `source_trial_id` by the id of that trial's newest checkpoint. So all trials start from the same one."""
    searcher = config.searcher
    trial_id, uuid_given = searcher.source_trial_id, searcher.source_checkpoint_uuid
    if trial_id is not None:
        known = [checkpoint for checkpoint in store.checkpoints(trial_id) if checkpoint.state == "ACTIVE"]
        if not known:
            raise InvalidExperimentException(f"searcher.source_trial_id: trial {trial_id} has no checkpoint")
        newest = max(known, key=lambda checkpoint: checkpoint.steps_completed)
        searcher.plain["source_checkpoint_uuid"] = newest.checkpoint_id
    elif uuid_given is not None:
        configured_storage(config).resources(uuid_given)  # raises CheckpointNotFound if it does not exist
