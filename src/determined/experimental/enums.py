"""The enumerations of the SDK: states, sort orders and sort keys."""

from __future__ import annotations

import enum


class OrderBy(enum.Enum):
    """Ascending or descending order."""

    ASC = "ASC"
    DESC = "DESC"
    # Determined has both spellings.
    ASCENDING = ASC
    DESCENDING = DESC


class ExperimentState(enum.Enum):
    """The state of an experiment. The values after DELETED exist only on a cluster and never occur here."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    STOPPING_KILLED = "STOPPING_KILLED"
    STOPPING_ERROR = "STOPPING_ERROR"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    ERROR = "ERROR"
    DELETED = "DELETED"

    QUEUED = "QUEUED"
    PULLING = "PULLING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    DELETING = "DELETING"
    DELETE_FAILED = "DELETE_FAILED"


class TrialState(enum.Enum):
    """The state of a trial. The values after ERROR exist only on a cluster and never occur here."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    STOPPED_EARLY = "STOPPED_EARLY"
    INVALID_HP = "INVALID_HP"
    CANCELED = "CANCELED"
    ERROR = "ERROR"

    ACTIVE = "ACTIVE"
    PULLING = "PULLING"
    STARTING = "STARTING"
    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    STOPPING_KILLED = "STOPPING_KILLED"
    STOPPING_ERROR = "STOPPING_ERROR"


class CheckpointState(enum.Enum):
    """Whether the files of a checkpoint are complete, partially deleted or deleted."""

    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    PARTIALLY_DELETED = "PARTIALLY_DELETED"
    DELETED = "DELETED"


class ExperimentSortBy(enum.Enum):
    """Sort keys of experiments."""

    ID = "ID"
    NAME = "NAME"
    DESCRIPTION = "DESCRIPTION"
    USER = "USER"
    STATE = "STATE"
    PROGRESS = "PROGRESS"
    START_TIME = "START_TIME"
    END_TIME = "END_TIME"
    NUM_TRIALS = "NUM_TRIALS"
    FORKED_FROM = "FORKED_FROM"
    SEARCHER_METRIC_VAL = "SEARCHER_METRIC_VAL"


class TrialSortBy(enum.Enum):
    """Sort keys of trials."""

    ID = "ID"
    STATE = "STATE"
    START_TIME = "START_TIME"
    END_TIME = "END_TIME"
    DURATION = "DURATION"
    BATCHES_PROCESSED = "BATCHES_PROCESSED"
    RESTARTS = "RESTARTS"
    BEST_VALIDATION_METRIC = "BEST_VALIDATION_METRIC"
    LATEST_VALIDATION_METRIC = "LATEST_VALIDATION_METRIC"


class CheckpointSortBy(enum.Enum):
    """Sort keys of checkpoints other than the name of a metric."""

    UUID = "UUID"
    TRIAL_ID = "TRIAL_ID"
    BATCH_NUMBER = "BATCH_NUMBER"
    END_TIME = "END_TIME"
    STATE = "STATE"
    SEARCHER_METRIC = "SEARCHER_METRIC"


class ModelSortBy(enum.Enum):
    """Sort keys of models."""

    NAME = "NAME"
    DESCRIPTION = "DESCRIPTION"
    CREATION_TIME = "CREATION_TIME"
    LAST_UPDATED_TIME = "LAST_UPDATED_TIME"
    NUM_VERSIONS = "NUM_VERSIONS"


class DownloadMode(enum.Enum):
    """How files are downloaded. Without a master all values mean: directly from the storage."""

    DIRECT = "DIRECT"
    MASTER = "MASTER"
    AUTO = "AUTO"


class LogLevel(enum.Enum):
    """The level of a log line."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"
