"""The `checkpoint_storage` block: where checkpoints are stored, and how many are kept."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, PlainValidator, Tag

from determined.config import validators
from determined.config.blocks.block import TAG, Block, tag_by
from determined.config.cloud_addresses import (
    ACCOUNT_URL,
    CONNECTION_STRING,
    URL,
    connection_fields,
    is_account_key,
    is_endpoint,
)
from determined.config.validators import AbsolutePath, Count, FilledText, Text

BucketName = Annotated[
    str,
    validators.matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,221}", "a name of letters, digits, '.', '_' and '-'"),
]


def _prefix(value: Any) -> str:
    if not isinstance(value, str) or ".." in value.split("/"):
        raise validators.refusal("a text without '..' as a part of the path")
    return value


def _endpoint(value: Any) -> str:
    if not isinstance(value, str) or not is_endpoint(value):
        without_scheme = isinstance(value, str) and "://" not in value and is_endpoint(f"https://{value}")
        raise validators.refusal(URL, f"write https://{value} or http://{value}" if without_scheme else "")
    return value


def _account_url(value: Any) -> str:
    """Return the URL of an Azure account if it is valid.

    The query may be a signature, which is a credential, so it is not checked as part of the address.
    """
    if not isinstance(value, str) or not is_endpoint(value.partition("?")[0]):
        raise validators.refusal(ACCOUNT_URL)
    return value


def _connection_string(value: Any) -> str:
    if not isinstance(value, str):
        raise validators.refusal(CONNECTION_STRING)
    try:
        connection_fields(value)
    except ValueError as error:
        raise validators.refusal(str(error)) from None
    return value


def _credential(value: Any) -> str:
    if not isinstance(value, str) or not ("sig=" in value or (value and is_account_key(value))):
        raise validators.refusal("the key of the account, which is base64, or a shared access signature with sig=")
    return value


Prefix = Annotated[str, PlainValidator(_prefix)]


class _Kept(Block):
    """The fields that all storage types have: how many checkpoints are kept."""

    type: str
    save_experiment_best: Count = 0
    save_trial_best: Count = 1
    save_trial_latest: Count = 1


class LocalStorage(_Kept):
    """The data directory of this machine, used if no `type` is given."""

    type: Literal["local"] = "local"

    def plain(self) -> dict[str, Any]:
        """Return the block without its `type`, which a file must not contain."""
        return {name: value for name, value in super().plain().items() if name != "type"}


class SharedFsStorage(_Kept):
    """A directory that all machines share. Paths of old releases are accepted and ignored."""

    type: Literal["shared_fs"]
    host_path: AbsolutePath
    storage_path: FilledText | None = None
    propagation: Text = "rprivate"
    container_path: Text | None = None
    checkpoint_path: Text | None = None
    tensorboard_path: Text | None = None


class DirectoryStorage(_Kept):
    """A directory of this machine."""

    type: Literal["directory"]
    container_path: AbsolutePath


class S3Storage(_Kept):
    """Amazon S3 and compatible services."""

    type: Literal["s3"]
    bucket: BucketName
    access_key: FilledText | None = None
    secret_key: FilledText | None = None
    endpoint_url: Annotated[str, PlainValidator(_endpoint)] | None = None
    prefix: Prefix | None = None


class GcsStorage(_Kept):
    """Google Cloud Storage."""

    type: Literal["gcs"]
    bucket: BucketName
    prefix: Prefix | None = None


class AzureStorage(_Kept):
    """Azure Blob Storage: with `connection_string`, or with `account_url` and optionally `credential`."""

    type: Literal["azure"]
    container: BucketName
    connection_string: Annotated[str, PlainValidator(_connection_string)] | None = None
    account_url: Annotated[str, PlainValidator(_account_url)] | None = None
    credential: Annotated[str, PlainValidator(_credential)] | None = None


def _tag(value: Any) -> str | None:
    """Return the tag of the storage type.

    A block with only retention settings is the local directory, whose own `type` a file must not contain.
    """
    if not isinstance(value, dict):
        return tag_by("type")(value)
    if "type" in value:
        return tag_by("type")(value) if value["type"] != "local" else None
    return TAG + "local" if set(value) <= set(LocalStorage.model_fields) else None


StorageConfig = Annotated[
    Annotated[LocalStorage, Tag("\0local")]
    | Annotated[SharedFsStorage, Tag("\0shared_fs")]
    | Annotated[DirectoryStorage, Tag("\0directory")]
    | Annotated[S3Storage, Tag("\0s3")]
    | Annotated[GcsStorage, Tag("\0gcs")]
    | Annotated[AzureStorage, Tag("\0azure")],
    Discriminator(_tag),
]
