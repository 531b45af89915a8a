"""`--test`: reduce a configuration to one batch of one trial, and archive the experiment afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from determined.store.store import Store

_KEEP_NOTHING = {"save_experiment_best": 0, "save_trial_best": 0, "save_trial_latest": 0}


def one_batch_of(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with a search of one trial that has a single rung after the first batch.

    The rung ends trial classes and scripts alike.
    """
    searcher, storage = config["searcher"], config.get("checkpoint_storage")
    return {
        **config,
        "searcher": {
            "name": "async_halving",
            "metric": searcher["metric"],
            "smaller_is_better": searcher.get("smaller_is_better", True),
            "num_rungs": 1,
            "max_trials": 1,
            "max_time": 1,
            "time_metric": "batches",
        },
        "max_restarts": 0,
        "scheduling_unit": 1,
        **({"checkpoint_storage": {**storage, **_KEEP_NOTHING}} if storage else {}),
    }


def archive(store: Store, experiment_id: int) -> None:
    """Archive an experiment, so that only `det experiment list --all` shows it."""
    from determined.store.experiment_changes import Change, ExperimentChange
    from determined.store.process import this_process

    lease = store.experiments.acquire(experiment_id, this_process())
    try:
        store.experiments.commit(lease, Change(experiment=ExperimentChange(archived=True)))
    finally:
        store.experiments.release(lease)
