"""Storage of checkpoint files: a directory, S3, Google Cloud Storage or Azure."""

from determined.checkpoint_storage.base import CheckpointStorage, checked_id
from determined.checkpoint_storage.build import build_from_argument, build_from_config
from determined.checkpoint_storage.directory import DirectoryStorage

__all__ = [
    "CheckpointStorage",
    "DirectoryStorage",
    "build_from_argument",
    "build_from_config",
    "checked_id",
]
