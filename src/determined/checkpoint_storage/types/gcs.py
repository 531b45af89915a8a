"""The storage type `gcs`: Google Cloud Storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from determined.checkpoint_storage.settings import StorageSettings
from determined.config.cloud_addresses import BucketName, Prefix

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage
    from determined.checkpoint_storage.bucket import Bucket


class GcsSettings(StorageSettings):
    """Google Cloud Storage. Credentials are Google's application-default ones."""

    bucket: BucketName
    prefix: Prefix | None = None

    def build(self) -> CheckpointStorage:
        from determined.checkpoint_storage.cloud import CloudStorage

        return CloudStorage(self.open_bucket())

    def open_bucket(self) -> Bucket:
        """Return the bucket, for programs that store other files than checkpoints in it."""
        from determined.checkpoint_storage import clouds

        name, prefix = clouds.bucket_name(self.bucket, "bucket"), clouds.checked_prefix(self.prefix)
        where, endpoint = clouds.from_environment("GOOGLE_BASE_URL")
        if endpoint is not None:
            clouds.checked_url(endpoint, where)
        return clouds.open_bucket("GCSStore", clouds.shown("gs", name, prefix, endpoint), name, prefix, {}, endpoint)
