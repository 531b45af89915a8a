"""Reads configurations that were stored: typed fields, without validation and without importing pydantic.

A configuration is validated once, when an experiment is created (`config/experiment.py`). After that it is stored as
JSON, and its runner, its workers and the commands of `det` read it through `StoredConfig`. Fields that are missing, as
in the configuration of a standalone run or of an earlier version, have the defaults of the model.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from determined.config.registry.search_methods import SearchMethod, search_method

T = TypeVar("T")
B = TypeVar("B", bound="_Block")

# A length as it is written: a number, or a map such as `{batches: 100}`.
PlainLength = int | dict[str, int]
# Variables of trials, each `NAME=VALUE` or `NAME`: a list, or lists by kind of device.
PlainVariables = list[str] | dict[str, list[str]]
# The length of a step, in which release 0.12 counted lengths and periods, if `batches_per_step` was not set.
BATCHES_PER_STEP = 100


class _Block:
    """A block of a stored configuration. `plain` is its JSON data; empty if the block is missing or not a map."""

    def __init__(self, plain: Any) -> None:
        self.plain: dict[str, Any] = plain if isinstance(plain, dict) else {}


class _Field(Generic[T]):
    """A field of a block with its default, which also replaces null."""

    def __init__(self, default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, block: _Block, owner: type) -> T:
        value = block.plain.get(self._name)
        return self._default if value is None else value


class _Inner(Generic[B]):
    """A block inside a block."""

    def __init__(self, kind: type[B]) -> None:
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, block: _Block, owner: type) -> B:
        return self._kind(block.plain.get(self._name))


class StoredSearcher(_Block):
    """The `searcher` block: the fields that other code reads of any method. None: the method has no such setting."""

    name = _Field[str | None](None)
    metric = _Field[str | None](None)
    smaller_is_better = _Field(True)
    source_trial_id = _Field[int | None](None)
    source_checkpoint_uuid = _Field[str | None](None)
    max_length = _Field[PlainLength | None](None)
    max_time = _Field[int | None](None)
    time_metric = _Field[str | None](None)
    max_trials = _Field[int | None](None)
    max_concurrent_trials = _Field[int | None](None)  # 0: no limit
    max_steps = _Field[int | None](None)  # the length in configurations of release 0.12
    target_trial_steps = _Field[int | None](None)  # the same, in adaptive searches of that release

    @property
    def method(self) -> SearchMethod:
        """The registered properties of the search method."""
        return search_method(self.name)


class StoredResources(_Block):
    """The `resources` block."""

    slots_per_trial = _Field(1)
    max_slots = _Field[int | None](None)
    priority = _Field[int | None](None)
    resource_pool = _Field("")
    is_single_node = _Field[bool | None](None)
    engine = _Field("local")
    node_timeout = _Field(20.0)  # seconds

    @property
    def slots(self) -> int:
        """The number of slots that a trial occupies; a configured 0 means a trial without a GPU, which needs one."""
        return max(1, self.slots_per_trial)


class StoredStorage(_Block):
    """The `checkpoint_storage` block. The fields of its type are read by the storage type."""

    type = _Field[str | None](None)
    save_experiment_best = _Field(0)
    save_trial_best = _Field(1)
    save_trial_latest = _Field(1)


class StoredOptimizations(_Block):
    """The `optimizations` block."""

    aggregation_frequency = _Field(1)
    average_aggregated_gradients = _Field(True)
    gradient_compression = _Field(False)
    mixed_precision = _Field[str | None](None)


class StoredLogPolicy(_Block):
    """An entry of `log_policies`."""

    name = _Field("")
    pattern = _Field[str | None](None)
    action = _Field[str | None](None)


class StoredProfiling(_Block):
    """The `profiling` block."""

    enabled = _Field(False)


class StoredReproducibility(_Block):
    """The `reproducibility` block."""

    experiment_seed = _Field[int | None](None)


class StoredEnvironment(_Block):
    """The `environment` block."""

    environment_variables = _Field[PlainVariables]([])


class StoredConfig(_Block):
    """A stored configuration. `plain` is the JSON data, which programs and users get."""

    name = _Field[str | None](None)
    description = _Field("")
    workspace = _Field[str | None](None)
    project = _Field[str | None](None)
    entrypoint = _Field[str | list[str] | None](None)
    data = _Field[dict[str, Any]]({})
    hyperparameters = _Field[dict[str, Any]]({})
    searcher = _Inner(StoredSearcher)
    resources = _Inner(StoredResources)
    checkpoint_storage = _Inner(StoredStorage)
    checkpoint_policy = _Field("best")
    min_validation_period = _Field[PlainLength | None](None)
    min_checkpoint_period = _Field[PlainLength | None](None)
    perform_initial_validation = _Field(False)
    scheduling_unit = _Field[int | None](None)
    batches_per_step = _Field(BATCHES_PER_STEP)
    max_restarts = _Field(5)
    preemption_timeout = _Field[float](3600)
    hang_timeout = _Field[float | None](None)  # null is stored, and means no limit
    max_trial_seconds = _Field[float | None](None)
    startup_hook = _Field(True)
    sinks = _Field[Any](None)  # validated when the sinks are chosen
    debug = _Field(False)
    reproducibility = _Inner(StoredReproducibility)
    optimizations = _Inner(StoredOptimizations)
    profiling = _Inner(StoredProfiling)
    environment = _Inner(StoredEnvironment)

    @property
    def labels(self) -> list[str]:
        """Return the labels; empty if the configuration has none."""
        found = self.plain.get("labels")
        return [str(label) for label in found] if isinstance(found, (list, tuple)) else []

    @property
    def log_policies(self) -> list[StoredLogPolicy]:
        """Return the log policies; empty if the configuration has none."""
        found = self.plain.get("log_policies")
        return [StoredLogPolicy(policy) for policy in found] if isinstance(found, list) else []

    @property
    def batches_between_reports(self) -> int:
        """The number of batches between two reports of training metrics; release 0.12 gave it in another field."""
        return self.scheduling_unit or self.batches_per_step
