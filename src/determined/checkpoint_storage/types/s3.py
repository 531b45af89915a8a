"""The storage type `s3`: Amazon S3 and compatible services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from determined.checkpoint_storage.settings import StorageSettings
from determined.config import validators
from determined.config.cloud_addresses import URL, BucketName, Prefix, is_endpoint
from determined.config.validators import FilledText
from determined.errors import Mistake

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage


def _endpoint(value: Any) -> str:
    """Return the URL of an endpoint; raise an error for anything else."""
    if not isinstance(value, str) or not is_endpoint(value):
        without_scheme = isinstance(value, str) and "://" not in value and is_endpoint(f"https://{value}")
        raise validators.refusal(URL, f"write https://{value} or http://{value}" if without_scheme else "")
    return value


class S3Settings(StorageSettings):
    """Amazon S3 and compatible services. What a block does not set is taken from `AWS_*` variables."""

    credentials_advice: ClassVar[str] = (
        "give keys as {'type': 's3', 'access_key': ..., 'secret_key': ..., ...} or in the environment"
    )

    bucket: BucketName
    access_key: FilledText | None = None
    secret_key: FilledText | None = None
    endpoint_url: Annotated[str, validators.Check(_endpoint)] | None = None
    prefix: Prefix | None = None

    @classmethod
    def problems(cls, block: Mapping[str, Any]) -> Iterator[Mistake]:
        """Require both keys or none."""
        for given, other in (("access_key", "secret_key"), ("secret_key", "access_key")):
            if given in block and other not in block:
                message = f"missing: {given} is given, and the two go together"
                yield Mistake(f"checkpoint_storage.{other}", None, message)

    def build(self) -> CheckpointStorage:
        from determined.checkpoint_storage import cloud_access
        from determined.checkpoint_storage.cloud_storage import CloudStorage

        name, prefix = cloud_access.bucket_name(self.bucket, "bucket"), cloud_access.checked_prefix(self.prefix)
        access_key = cloud_access.filled_text(self.access_key, "access_key")
        secret_key = cloud_access.filled_text(self.secret_key, "secret_key")
        # With one of them the library would take the other from the environment, and mix two accounts.
        if (access_key is None) != (secret_key is None):
            raise ValueError("checkpoint_storage of type s3 takes access_key and secret_key together, or neither")
        given = {"access_key_id": access_key, "secret_access_key": secret_key}
        options = {key: value for key, value in given.items() if value is not None}
        where, endpoint = "checkpoint_storage.endpoint_url", cloud_access.filled_text(self.endpoint_url, "endpoint_url")
        if endpoint is None:
            where, endpoint = cloud_access.from_environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        if endpoint is not None:
            endpoint = options["endpoint"] = cloud_access.checked_url(endpoint, where)
        shown = cloud_access.shown("s3", name, prefix, endpoint)
        secrets = {key for key in (access_key, secret_key) if key}
        return CloudStorage(
            cloud_access.open_bucket("S3Store", shown, name, prefix, options, endpoint, secrets=secrets)
        )
