"""The storage type `gcs`: Google Cloud Storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from determined.checkpoint_storage.settings import StorageSettings
from determined.config.cloud_addresses import BucketName, Prefix

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage
    from determined.checkpoint_storage.bucket import Bucket


class GcsSettings(StorageSettings):
    """Google Cloud Storage. Credentials are Google's application-default ones."""

    credentials_advice: ClassVar[str] = (
        "credentials are Google's application-default ones, such as a file that GOOGLE_APPLICATION_CREDENTIALS names"
    )

    bucket: BucketName
    prefix: Prefix | None = None

    def build(self) -> CheckpointStorage:
        from determined.checkpoint_storage.cloud_storage import CloudStorage

        return CloudStorage(self.open_bucket())

    def open_bucket(self) -> Bucket:
        """Return the bucket, for programs that store other files than checkpoints in it."""
        from determined.checkpoint_storage import cloud_access

        name, prefix = cloud_access.bucket_name(self.bucket, "bucket"), cloud_access.checked_prefix(self.prefix)
        where, endpoint = cloud_access.from_environment("GOOGLE_BASE_URL")
        if endpoint is not None:
            cloud_access.checked_url(endpoint, where)
        return cloud_access.open_bucket(
            "GCSStore", cloud_access.shown("gs", name, prefix, endpoint), name, prefix, {}, endpoint
        )
