"""`--test`: reduce a configuration to one batch of one trial, and archive the experiment afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from determined.config.storage_directory import RETENTION

if TYPE_CHECKING:
    from determined.config.experiment import LoadedExperiment
    from determined.store.store import Store

_KEEP_NOTHING = dict.fromkeys(RETENTION, 0)


def one_batch_of(loaded: LoadedExperiment) -> LoadedExperiment:
    """Return the configuration with a search of one trial that has a single rung after the first batch.

    The rung ends trial classes and scripts alike.
    """
    from dataclasses import replace

    from determined.config.dump import dump_yaml
    from determined.searchers.methods.async_halving import AsyncHalving

    searcher, storage = loaded.config.searcher, loaded.config.checkpoint_storage
    one_rung = AsyncHalving(
        name="async_halving",
        metric=searcher.metric,
        smaller_is_better=searcher.smaller_is_better,
        num_rungs=1,
        max_trials=1,
        max_time=1,
        time_metric="batches",
    )
    changes = {
        "searcher": one_rung,
        # A test that fails should say so at once.
        "max_restarts": 0,
        "scheduling_unit": 1,
        "checkpoint_storage": storage.model_copy(update=_KEEP_NOTHING),
    }
    config = loaded.config.model_copy(update=changes)
    # The user's file describes another search, so places in it would be wrong.
    return replace(loaded, config=config, original=dump_yaml(config.plain()), file="", text=None, overridden=())


def archive(store: Store, experiment_id: int) -> None:
    """Archive an experiment, so that only `det experiment list --all` shows it."""
    from determined.store.experiment_changes import Change, ExperimentChange
    from determined.store.process import this_process

    # The runner has released it, since it ran in this process.
    lease = store.experiments.acquire(experiment_id, this_process())
    try:
        store.experiments.commit(lease, Change(experiment=ExperimentChange(archived=True)))
    finally:
        store.experiments.release(lease)
