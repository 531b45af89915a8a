"""The registry of storage types: the values of `checkpoint_storage.type`."""

from __future__ import annotations

from typing import Any, NamedTuple


class StorageType(NamedTuple):
    """A storage type."""

    implementation: str  # `module:class`; the class is a `determined.checkpoint_storage.settings.StorageSettings`
    uri_scheme: str | None = None  # for types with the fields `bucket` and `prefix`: `scheme://bucket/prefix` names one
    is_mounted: bool = False  # its files are in a directory, which needs no credentials


STORAGE_TYPES = {
    "shared_fs": StorageType("determined.checkpoint_storage.types.shared_fs:SharedFsSettings", is_mounted=True),
    "directory": StorageType("determined.checkpoint_storage.types.directory:DirectorySettings", is_mounted=True),
    "s3": StorageType("determined.checkpoint_storage.types.s3:S3Settings", uri_scheme="s3"),
    "gcs": StorageType("determined.checkpoint_storage.types.gcs:GcsSettings", uri_scheme="gs"),
    # `azure` has no URI: an account and a container are not described by one name.
    "azure": StorageType("determined.checkpoint_storage.types.azure:AzureSettings"),
}


def storage_type(name: Any) -> StorageType | None:
    """Return a storage type by its name, or None for anything else."""
    return STORAGE_TYPES.get(name) if isinstance(name, str) else None
