"""Configurations of older releases keep their meaning, and one note shows their current form."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from determined.config.experiment import load_experiment
from determined.config.reading.legacy import migrate
from determined.config.reading.load import parse_yaml
from determined.errors import InvalidExperimentConfig

# The files of the public examples, as each release had them.
OLD_FILES = {
    "mnist const, 0.12.0": """
description: mnist_pytorch_const
hyperparameters: {learning_rate: 1e-3, dropout: 0.5, global_batch_size: 64, n_filters1: 40, n_filters2: 40}
searcher: {name: single, metric: validation_error, max_steps: 20, smaller_is_better: true}
entrypoint: model_def:MNistTrial
""",
    "mnist adaptive, 0.12.0": """
hyperparameters:
  learning_rate: {type: log, minval: -3.0, maxval: -1.0, base: 10.0}
  dropout: {type: double, minval: 0.2, maxval: 0.8}
  global_batch_size: {type: const, val: 64}
  n_filters1: {type: int, minval: 8, maxval: 64}
searcher:
  name: adaptive_simple
  metric: validation_error
  smaller_is_better: true
  max_trials: 16
  max_steps: 32
  mode: aggressive
  max_rungs: 3
  divisor: 4
entrypoint: model_def:MNistTrial
""",
    "cifar const, 0.12.4": """
description: cifar10_pytorch_const
hyperparameters: {learning_rate: 1e-4, learning_rate_decay: 1e-6, layer1_dropout: 0.25, global_batch_size: 32}
searcher: {name: single, metric: validation_error, max_steps: 500}
min_validation_period: 10
entrypoint: model_def:CIFARTrial
""",
    "cifar adaptive-advanced, 0.12": """
searcher:
  name: adaptive
  metric: validation_error
  target_trial_steps: 800
  step_budget: 6400
  mode: standard
  train_stragglers: true
entrypoint: model_def:CIFARTrial
""",
    "mnist parallel, 0.12.4": """
searcher: {name: single, metric: validation_loss, max_steps: 9}
resources: {slots_per_trial: 8, native_parallel: false}
optimizations: {aggregation_frequency: 1, mixed_precision: O0}
entrypoint: model_def:MNistTrial
""",
    "cifar const, 0.13": """
records_per_epoch: 50000
searcher: {name: single, metric: validation_error, max_length: {epochs: 32}}
min_validation_period: {epochs: 1}
entrypoint: model_def:CIFARTrial
""",
    "cifar adaptive, 0.13": """
records_per_epoch: 50000
hyperparameters: {lr: {type: log, base: 10, minval: -5.0, maxval: 1.0}, gbs: {type: int, minval: 16, maxval: 64}}
searcher: {name: adaptive_asha, metric: validation_error, max_length: {epochs: 32}, max_trials: 16}
entrypoint: model_def:CIFARTrial
""",
    "squad, 0.15": """
searcher: {name: single, metric: f1, max_length: {records: 180000}, smaller_is_better: false}
min_validation_period: {records: 12000}
optimizations: {aggregation_frequency: 24}
entrypoint: model_def:SquadTrial
""",
    "mnist pbt, 0.14": """
hyperparameters: {lr: {type: log, base: 10, minval: -5.0, maxval: 1.0}}
searcher:
  name: pbt
  metric: validation_loss
  population_size: 8
  num_rounds: 4
  length_per_round: {epochs: 1}
  replace_function: {truncate_fraction: 0.2}
  explore_function: {resample_probability: 0.2, perturb_factor: 0.2}
entrypoint: model_def:MNistTrial
""",
    "mnist const, 0.38": """
name: mnist_pytorch_const
hyperparameters: {learning_rate: 1.0, n_filters1: 32}
searcher: {name: single, metric: validation_loss, smaller_is_better: true}
entrypoint: python3 train.py --epochs 1
max_restarts: 0
""",
    "mnist adaptive, 0.38": """
searcher: {name: adaptive_asha, metric: validation_loss, time_metric: batches, max_time: 937, max_trials: 16}
entrypoint: python3 train.py
""",
    "mnist distributed, 0.38": """
searcher: {name: single, metric: validation_loss}
resources: {slots_per_trial: 8}
entrypoint: python3 -m determined.launch.torch_distributed python3 train.py --epochs 1
""",
}


@pytest.mark.parametrize("text", OLD_FILES.values(), ids=OLD_FILES)
def test_a_file_of_an_old_release_loads_and_its_migrated_form_needs_no_note(text: str) -> None:
    loaded = load_experiment(text)
    assert len(loaded.notes) <= 1
    again = load_experiment(migrate(parse_yaml("x", text)).config)
    assert again.notes == []
    assert again.config == loaded.config
    assert load_experiment(loaded.config.plain()).config == loaded.config


def loaded_plain(name: str) -> dict[str, Any]:
    return load_experiment(OLD_FILES[name]).config.plain()


def test_numbers_with_an_exponent_are_numbers() -> None:
    assert loaded_plain("cifar const, 0.12.4")["hyperparameters"]["learning_rate_decay"] == 1e-6


def test_steps_are_a_hundred_batches_each() -> None:
    config = loaded_plain("cifar const, 0.12.4")
    assert config["searcher"]["max_length"] == {"batches": 50000}
    assert config["min_validation_period"] == {"batches": 1000}
    assert config["scheduling_unit"] == 100


def base(**changes: Any) -> dict[str, Any]:
    searcher = {"name": "single", "metric": "x", **changes.pop("searcher", {})}
    return {"entrypoint": "a:B", "searcher": searcher, **changes}


def test_steps_of_another_length() -> None:
    config = load_experiment(
        base(batches_per_step=50, min_checkpoint_period=3, min_validation_period=0, searcher={"max_steps": 9})
    ).config
    assert config.scheduling_unit == 50
    assert config.plain()["searcher"]["max_length"] == {"batches": 450}
    assert config.plain()["min_checkpoint_period"] == {"batches": 150}
    assert config.plain()["min_validation_period"] == {"batches": 0}
    both = load_experiment(base(batches_per_step=50, scheduling_unit=20)).config
    assert both.scheduling_unit == 20


def test_adaptive_simple_is_adaptive_asha() -> None:
    searcher = loaded_plain("mnist adaptive, 0.12.0")["searcher"]
    assert (
        searcher.items()
        >= {
            "name": "adaptive_asha",
            "max_trials": 16,
            "max_time": 3200,
            "time_metric": "batches",
            "max_length": {"batches": 3200},
            "mode": "aggressive",
            "max_rungs": 3,
            "divisor": 4,
        }.items()
    )


def test_adaptive_gets_as_many_trials_as_its_budget_pays_for() -> None:
    loaded = load_experiment(OLD_FILES["cifar adaptive-advanced, 0.12"])
    searcher = loaded.config.plain()["searcher"]
    assert searcher["name"] == "adaptive_asha"
    # Three brackets (3, 4 and 5 rungs) with a third of 640000 batches each. In the first a trial costs
    # 1/16 * (1 + 2 * 3/4) of 80000 batches, so 17 of them; 52.4 and 170.7 in the others.
    assert searcher["max_trials"] == 17 + 52 + 170
    assert "max_trials: 239, computed" in loaded.notes[0]
    assert "train_stragglers" not in searcher


@pytest.mark.parametrize("name", ["sync_halving", "async_halving"])
def test_halving_with_a_budget(name: str) -> None:
    old = base(
        searcher={
            "name": name,
            "num_rungs": 3,
            "target_trial_steps": 16,
            "step_budget": 160,
            "train_stragglers": False,
        }
    )
    searcher = load_experiment(old).config.plain()["searcher"]
    # A trial costs 1/16 * (1 + 2 * 3/4) of 1600 batches: 250.
    assert (
        searcher.items()
        >= {
            "name": "async_halving",
            "num_rungs": 3,
            "max_trials": 64,
            "max_time": 1600,
            "time_metric": "batches",
        }.items()
    )


def test_given_rungs_of_brackets_and_a_number_of_trials() -> None:
    adaptive = {"name": "adaptive", "max_length": {"epochs": 16}, "budget": {"epochs": 64}}
    one = load_experiment(base(searcher={**adaptive, "bracket_rungs": [1]})).config.plain()["searcher"]
    assert (one["max_trials"], one["bracket_rungs"]) == (4, [1])
    given = load_experiment(base(searcher={**adaptive, "max_trials": 7})).config.plain()["searcher"]
    assert given["max_trials"] == 7


@pytest.mark.parametrize(
    ("length", "metric", "time"),
    [
        ({"epochs": 16}, "epochs", 16),
        ({"batches": 9}, "batches", 9),
        ({"records": 5000}, "records", 5000),
        (30, "batches", 30),
    ],
)
def test_a_length_with_its_unit_becomes_a_time_and_its_metric(length: Any, metric: str, time: int) -> None:
    for name, more in (("adaptive_asha", {}), ("async_halving", {"num_rungs": 2}), ("optuna", {})):
        old = base(searcher={"name": name, "max_trials": 4, "max_length": length, **more})
        searcher = load_experiment(old).config.plain()["searcher"]
        assert (searcher["time_metric"], searcher["max_time"], searcher["max_length"]) == (metric, time, length)


def test_a_time_that_is_given_stays() -> None:
    old = base(
        searcher={
            "name": "adaptive_asha",
            "max_trials": 4,
            "max_length": {"epochs": 9},
            "max_time": 500,
            "time_metric": "batches",
        }
    )
    loaded = load_experiment(old)
    assert (loaded.config.plain()["searcher"]["max_time"], loaded.notes) == (500, [])


def test_rounds_of_a_population_are_counted_in_their_unit() -> None:
    assert loaded_plain("mnist pbt, 0.14")["searcher"]["time_metric"] == "epochs"
    steps = base(searcher={"name": "pbt", "population_size": 2, "num_rounds": 2, "steps_per_round": 3})
    searcher = load_experiment(steps).config.plain()["searcher"]
    assert (searcher["length_per_round"], searcher["time_metric"]) == ({"batches": 300}, "batches")


def test_gpu_is_called_cuda() -> None:
    old = base(environment={"image": {"cpu": "a", "gpu": "b"}, "environment_variables": {"gpu": ["A=1"]}})
    environment = load_experiment(old).config.environment
    assert environment.image is not None
    assert (environment.image.cuda, environment.variables("cuda")) == ("b", ("A=1",))


def test_log_policies_without_names() -> None:
    old = base(
        log_policies=[
            {"pattern": ".*oom.*", "action": {"type": "cancel_retries"}},
            {"pattern": ".*oom.*", "action": {"type": "exclude_node"}},
        ]
    )
    policies = load_experiment(old).config.log_policies[2:]
    assert [(policy.name, policy.pattern, policy.action) for policy in policies] == [
        (".*oom.*", ".*oom.*", "cancel_retries"),
        (".*oom.* (2)", ".*oom.*", "exclude_node"),
    ]


def test_one_note_with_the_migrated_file_and_without_secrets() -> None:
    old = base(
        batches_per_step=50,
        searcher={"max_steps": 4},
        data={"secrets": {"a": "s3cr3t"}, "api_key": "s3cr3t"},
    )
    (note,) = load_experiment(old).notes
    for words in (
        "batches_per_step: 50 is scheduling_unit: 50",
        "searcher.max_steps: 4 is max_length: {batches: 200}",
        "    scheduling_unit: 50",
    ):
        assert words in note
    assert "s3cr3t" not in note


def test_records_per_epoch_stays_where_programs_read_it() -> None:
    loaded = load_experiment(base(records_per_epoch=50000))
    assert loaded.config.plain()["records_per_epoch"] == 50000
    assert loaded.notes == []
    assert loaded.warnings == [
        "These fields change nothing on this machine: records_per_epoch (programs can read it; an epoch is as long as "
        "the data)."
    ]
    assert not load_experiment(base()).config.plain().get("records_per_epoch")


def test_migration_changes_nothing_in_place() -> None:
    for text in OLD_FILES.values():
        config = parse_yaml("x", text)
        before = copy.deepcopy(config)
        migrate(config)
        assert config == before


def test_a_retired_searcher_with_wrong_fields_is_refused_by_them() -> None:
    with pytest.raises(InvalidExperimentConfig) as caught:
        load_experiment(
            base(
                searcher={"name": "adaptive", "target_trial_steps": 3, "step_budget": 30, "mode": "fast", "divisor": 0}
            )
        )
    assert {mistake.path for mistake in caught.value.mistakes} == {"searcher.mode", "searcher.divisor"}
    with pytest.raises(InvalidExperimentConfig) as caught:
        load_experiment(base(searcher={"name": "sync_halving", "num_rungs": 2, "budget": {"batches": 9}}))
    assert {mistake.path for mistake in caught.value.mistakes} == {"searcher.max_time", "searcher.time_metric"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"max_length": {"batches": 0}}, "searcher.max_length"),
        ({"max_length": {"batches": 10**400}}, "searcher.max_length"),
        ({"budget": {"batches": 10**400}}, "searcher.budget"),
        ({"train_stragglers": "yes"}, "searcher.train_stragglers"),
    ],
)
def test_a_budget_that_cannot_be_computed(changes: dict[str, Any], path: str) -> None:
    searcher = {"name": "adaptive", "max_length": {"batches": 9}, "budget": {"batches": 90}, **changes}
    with pytest.raises(InvalidExperimentConfig) as caught:
        load_experiment(base(searcher=searcher))
    assert path in {mistake.path for mistake in caught.value.mistakes}


def test_a_budget_with_extreme_rungs_is_computed_soon() -> None:
    long = {"name": "adaptive", "max_length": {"batches": 2**62}, "budget": {"batches": 2**63 - 1}}
    searcher = load_experiment(
        base(searcher={**long, "divisor": 1.0000001, "max_rungs": 10**15, "mode": "conservative"})
    ).config.plain()["searcher"]
    assert searcher["max_trials"] >= 1


def test_removed_fields_are_noted_without_an_empty_example() -> None:
    loaded = load_experiment(base(batches_per_step=50, scheduling_unit=20))
    (note,) = loaded.notes
    assert note.endswith("batches_per_step: 50 yields to scheduling_unit")
    assert "{}" not in note
