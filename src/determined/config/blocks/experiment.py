"""The model of the experiment configuration: every field with its type and default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from determined.config import validators
from determined.config.blocks.block import Block, one_of, tag_by
from determined.config.blocks.cluster import Integrations, Pbs, RetentionPolicy, Security, Slurm
from determined.config.blocks.environment import BindMount, Environment
from determined.config.blocks.log_policy import BUILT_IN, LogPolicy, with_built_in
from determined.config.blocks.resources import Resources
from determined.config.blocks.searcher import SearcherBlock, searcher_models
from determined.config.blocks.sinks import Sinks
from determined.config.blocks.storage import LocalStorage, StorageBlock, storage_models, storage_tag
from determined.config.blocks.training import Optimizations, Profiling
from determined.config.length import Length
from determined.config.metric_values import is_finite
from determined.config.validators import Count, FilledText, Flag, PositiveCount, Text

if TYPE_CHECKING:
    SearcherConfig = SearcherBlock
    StorageConfig = StorageBlock
else:
    SearcherConfig = one_of(searcher_models(), tag_by("name"))
    StorageConfig = one_of(storage_models(), storage_tag)

Period = Annotated[Length, validators.length(0)]
# Every random generator in use accepts these seeds.
Seed = Annotated[int, validators.integer(0, 2**31 - 1)]


def _labels_as_list(value: Any) -> Any:
    """Return labels as a list; a map gives the labels whose value is true."""
    if isinstance(value, dict) and all(isinstance(chosen, bool) for chosen in value.values()):
        return [label for label, chosen in value.items() if chosen]
    return value


def _without_duplicates(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels without duplicates."""
    return tuple(dict.fromkeys(labels))


def _entrypoint(value: Any) -> str | tuple[str, ...]:
    """Return the entrypoint if it is a non-empty text or list of texts, else raise."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, str) for part in value) and value[0]:
        return tuple(value)
    raise validators.refusal("module:TrialClass, a command, or a command as a list of texts")


def _discard(value: Any) -> None:
    raise validators.refusal("null")


def _seconds_or_never(value: Any) -> float | None:
    """Return a number of seconds; None, which means no limit, for null and 0."""
    if value is not None and (not is_finite(value) or value < 0):
        raise validators.refusal("a number of seconds, or null for no limit")
    return value or None


Labels = Annotated[tuple[FilledText, ...], BeforeValidator(_labels_as_list), AfterValidator(_without_duplicates)]
LogPolicies = Annotated[tuple[LogPolicy, ...], AfterValidator(with_built_in)]


class Reproducibility(Block):
    """The seed of the search, from which the seeds of its trials are derived."""

    experiment_seed: Seed | None = None


class ExperimentConfig(Block):
    """A validated configuration with defaults, in the current format.

    Fields that Determined does not have: `hang_timeout`, the seconds without a report, a log line or CPU use after
    which an attempt counts as failed (null or 0: never); `max_trial_seconds`, the run time of a trial over all attempts
    after which it is stopped with a checkpoint; `sinks`, services to which metrics are forwarded; `startup_hook`,
    whether `startup-hook.sh` of the model directory is run; `searcher.stop_once`, which some releases did not have.
    """

    name: Text | None = None
    description: Text | None = None
    labels: Labels = ()
    workspace: Text = ""
    project: Text = ""
    entrypoint: Annotated[str | tuple[str, ...], PlainValidator(_entrypoint)]
    data: dict[str, Any] = {}
    hyperparameters: dict[str, Any] = {}
    searcher: SearcherConfig
    resources: Resources = Resources()
    checkpoint_storage: StorageConfig = Field(default_factory=LocalStorage)
    checkpoint_policy: Annotated[Literal["best", "all", "none"], validators.choice("best", "all", "none")] = "best"
    min_validation_period: Period = Length(0, "batches")
    min_checkpoint_period: Period = Length(0, "batches")
    perform_initial_validation: Flag = False
    scheduling_unit: PositiveCount = 100
    records_per_epoch: Count | None = None  # for programs that read it; the length of an epoch is that of its loader
    max_restarts: Count = 5
    preemption_timeout: Count = 3600
    hang_timeout: Annotated[float | None, PlainValidator(_seconds_or_never)] = 1800
    max_trial_seconds: Annotated[float, validators.number(above=0)] | None = None
    startup_hook: Flag = True
    log_policies: LogPolicies = BUILT_IN
    sinks: Sinks | None = None
    debug: Flag = False
    reproducibility: Reproducibility = Reproducibility()
    optimizations: Optimizations = Optimizations()
    profiling: Profiling = Profiling()
    environment: Environment = Environment()
    bind_mounts: tuple[BindMount, ...] = ()
    retention_policy: RetentionPolicy | None = None
    integrations: Integrations | None = None
    slurm: Slurm | None = None
    pbs: Pbs | None = None
    security: Security | None = None
    tensorboard_storage: dict[str, Any] | None = None
    data_layer: dict[str, Any] | None = None
    internal: Annotated[None, PlainValidator(_discard)] = None

    def plain(self) -> dict[str, Any]:
        """Return the effective configuration as JSON data, as it is passed to trials and stored."""
        # Written even if it is None, because null means no limit, and a missing field the default.
        return {**super().plain(), "hang_timeout": self.hang_timeout}
