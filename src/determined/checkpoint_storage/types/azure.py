"""The storage type `azure`: Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from determined.checkpoint_storage.settings import StorageSettings
from determined.config.cloud_addresses import (
    ACCOUNT_URL,
    CONNECTION_STRING,
    BucketName,
    blob_endpoint,
    connection_fields,
    is_account_key,
    is_endpoint,
)
from determined.config.validators import Check, refusal
from determined.errors import Mistake

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage


def _account_url(value: Any) -> str:
    """Return the URL of an Azure account if it is valid.

    The query may be a signature, which is a credential, so it is not checked as part of the address.
    """
    if not isinstance(value, str) or not is_endpoint(value.partition("?")[0]):
        raise refusal(ACCOUNT_URL)
    return value


def _connection_string(value: Any) -> str:
    """Return a connection string; raise an error, without showing it, for an invalid one."""
    if not isinstance(value, str):
        raise refusal(CONNECTION_STRING)
    try:
        connection_fields(value)
    except ValueError as error:
        raise refusal(str(error)) from None
    return value


def _credential(value: Any) -> str:
    """Return an account key or a shared access signature; raise an error for anything else."""
    if not isinstance(value, str) or not ("sig=" in value or (value and is_account_key(value))):
        raise refusal("the key of the account, which is base64, or a shared access signature with sig=")
    return value


class AzureSettings(StorageSettings):
    """Azure Blob Storage: with `connection_string`, or with `account_url` and optionally `credential`."""

    container: BucketName
    connection_string: Annotated[str, Check(_connection_string)] | None = None
    account_url: Annotated[str, Check(_account_url)] | None = None
    credential: Annotated[str, Check(_credential)] | None = None

    @classmethod
    def problems(cls, block: Mapping[str, Any]) -> Iterator[Mistake]:
        """Require exactly one of `connection_string` and `account_url`, and `credential` only with the latter."""
        path = "checkpoint_storage.connection_string"
        if "connection_string" in block and "account_url" in block:
            yield Mistake(path, None, "only one of connection_string and account_url may be given")
        elif "connection_string" not in block and "account_url" not in block:
            yield Mistake(path, None, "missing: one of connection_string and account_url")
        if "connection_string" in block and "credential" in block:
            message = "goes with account_url only, not with connection_string"
            yield Mistake("checkpoint_storage.credential", None, message)

    def build(self) -> CheckpointStorage:
        from determined.checkpoint_storage import cloud_access
        from determined.checkpoint_storage.cloud_storage import CloudStorage

        if (self.connection_string is None) == (self.account_url is None):
            raise ValueError("checkpoint_storage of type azure needs exactly one of connection_string and account_url")
        if self.connection_string is not None and self.credential is not None:
            raise ValueError("checkpoint_storage of type azure takes no credential beside a connection_string")
        name = cloud_access.bucket_name(self.container, "container")
        connection_string = cloud_access.filled_text(self.connection_string, "connection_string")
        # A connection string is one secret as a whole, because it contains the key.
        if connection_string is not None:
            options, secrets = _from_connection_string(connection_string)
        else:
            account_url = str(cloud_access.filled_text(self.account_url, "account_url"))
            options, secrets = _from_account_url(account_url, cloud_access.filled_text(self.credential, "credential"))
        endpoint = options.get("endpoint")
        account = f"account {options.get('account_name', 'of the emulator')}"
        shown = cloud_access.shown("azure", name, "", endpoint or account)
        return CloudStorage(cloud_access.open_bucket("AzureStore", shown, name, "", options, endpoint, secrets=secrets))


def _from_connection_string(text: str) -> tuple[dict[str, Any], set[str]]:
    """Return the library's options for an Azure connection string, and the secrets among them."""
    try:
        fields = connection_fields(text)
    except ValueError as error:
        raise ValueError(f"checkpoint_storage.connection_string must be {error}") from None
    if fields.get("UseDevelopmentStorage", "").lower() == "true":
        return {"use_emulator": True}, set()
    options: dict[str, Any] = {}
    for field, option in [
        ("AccountName", "account_name"),
        ("AccountKey", "account_key"),
        ("SharedAccessSignature", "sas_key"),
    ]:
        if fields.get(field):
            options[option] = fields[field]
    endpoint = blob_endpoint(fields)
    if endpoint is not None:
        options["endpoint"] = endpoint
        options.setdefault("account_name", _account_of(endpoint))
    secrets = {options[name] for name in ("account_key", "sas_key") if name in options}
    # The complete text too, because an error may quote it.
    return options, {*secrets, text}


def _from_account_url(url: str, credential: str | None) -> tuple[dict[str, Any], set[str]]:
    """Return the library's options for an Azure account URL, and the secrets among them."""
    from determined.checkpoint_storage.cloud_access import checked_url

    bare, _, query = url.partition("?")
    endpoint = checked_url(bare, "checkpoint_storage.account_url")
    options: dict[str, Any] = {"endpoint": endpoint, "account_name": _account_of(endpoint)}
    secret = credential or query
    if secret:
        is_signature = "sig=" in secret
        # Signatures are often copied with the question mark of the URL.
        options["sas_key" if is_signature else "account_key"] = secret.removeprefix("?")
    # Both forms, because an error may quote either.
    return options, {secret, secret.removeprefix("?")} if secret else set()


def _account_of(endpoint: str) -> str:
    return str(urlsplit(endpoint).hostname).partition(".")[0]
