"""The words of the SDK: states, orders, and what lists are sorted by."""

from __future__ import annotations

import enum


class OrderBy(enum.Enum):
    """Which end of a list comes first."""

    ASC = "ASC"
    DESC = "DESC"
    ASCENDING = ASC
    DESCENDING = DESC


class ExperimentState(enum.Enum):
    """What an experiment is doing, or how it ended. The last ones are words of a cluster: none is ever in them here."""

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
    """What a trial is doing, or how it ended. The last ones are words of a cluster: none is ever in them here."""

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
    """How much of a checkpoint there is."""

    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    PARTIALLY_DELETED = "PARTIALLY_DELETED"
    DELETED = "DELETED"


class ExperimentSortBy(enum.Enum):
    """What a list of experiments is sorted by."""

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
    """What a list of trials is sorted by."""

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
    """What a list of checkpoints is sorted by, where it is not the name of a metric."""

    UUID = "UUID"
    TRIAL_ID = "TRIAL_ID"
    BATCH_NUMBER = "BATCH_NUMBER"
    END_TIME = "END_TIME"
    STATE = "STATE"
    SEARCHER_METRIC = "SEARCHER_METRIC"


class ModelSortBy(enum.Enum):
    """What a list of models is sorted by."""

    NAME = "NAME"
    DESCRIPTION = "DESCRIPTION"
    CREATION_TIME = "CREATION_TIME"
    LAST_UPDATED_TIME = "LAST_UPDATED_TIME"
    NUM_VERSIONS = "NUM_VERSIONS"


class DownloadMode(enum.Enum):
    """How files come here. Without a master all of these mean: directly from the storage."""

    DIRECT = "DIRECT"
    MASTER = "MASTER"
    AUTO = "AUTO"


class LogLevel(enum.Enum):
    """The level that a line of a log names."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"
