"""Create a bucket from the configuration of `s3`, `gcs` or `azure`: options, credentials, and the name to show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from determined.checkpoint_storage.bucket import Bucket
from determined.config.cloud_addresses import URL, blob_endpoint, connection_fields, is_endpoint
from determined.optional import require

_RETRIES = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
# The read timeout detects an unresponsive server; the total timeout must allow for large files.
_TIMEOUTS = {
    "connect_timeout": timedelta(seconds=10),
    "read_timeout": timedelta(seconds=120),
    "timeout": timedelta(hours=2),
}

_SECRET_NAME = re.compile(r"^(AWS|GOOGLE|AZURE)_.*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)")
_BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,221}")


def s3_bucket(config: dict[str, Any]) -> Bucket:
    """Return the bucket of an `s3` block; what it does not set is taken from `AWS_*` variables.

    Fields: `bucket`, and optionally `prefix`, `access_key`, `secret_key`, `endpoint_url`.
    """
    name, prefix = _bucket_name(config, "bucket"), _prefix(config)
    given = {"access_key_id": _text(config, "access_key"), "secret_access_key": _text(config, "secret_key")}
    if (given["access_key_id"] is None) != (given["secret_access_key"] is None):
        raise ValueError("checkpoint_storage of type s3 takes access_key and secret_key together, or neither")
    options = {key: value for key, value in given.items() if value is not None}
    where, endpoint = "checkpoint_storage.endpoint_url", _text(config, "endpoint_url")
    if endpoint is None:
        where, endpoint = _from_environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    if endpoint is not None:
        endpoint = options["endpoint"] = _checked_url(endpoint, where)
    shown = _shown("s3", name, prefix, endpoint)
    return _open(
        "S3Store", shown, name, prefix, options, endpoint, secrets={value for value in given.values() if value}
    )


def gcs_bucket(config: dict[str, Any]) -> Bucket:
    """Return the bucket of a `gcs` block; credentials are Google's application-default ones.

    Fields: `bucket`, and optionally `prefix`.
    """
    name, prefix = _bucket_name(config, "bucket"), _prefix(config)
    where, endpoint = _from_environment("GOOGLE_BASE_URL")
    if endpoint is not None:
        _checked_url(endpoint, where)
    return _open("GCSStore", _shown("gs", name, prefix, endpoint), name, prefix, {}, endpoint)


def azure_bucket(config: dict[str, Any]) -> Bucket:
    """Return the container of an `azure` block.

    Fields: `container`, and either `connection_string` or `account_url`, the latter optionally with `credential`.
    """
    name = _bucket_name(config, "container")
    connection_string = _text(config, "connection_string")
    if connection_string is not None:
        options, secrets = _from_connection_string(connection_string)
    else:
        options, secrets = _from_account_url(str(_text(config, "account_url")), _text(config, "credential"))
    endpoint = options.get("endpoint")
    shown = _shown("azure", name, "", endpoint or f"account {options.get('account_name', 'of the emulator')}")
    return _open("AzureStore", shown, name, "", options, endpoint, secrets=secrets)


def _open(
    kind: str,
    shown: str,
    name: str,
    prefix: str,
    options: dict[str, Any],
    endpoint: str | None,
    secrets: Iterable[str] = (),
) -> Bucket:
    """Return a bucket of the library with time limits and retries."""
    purpose = f"the checkpoint storage {shown}"
    stores = require("obstore.store", extra="cloud", purpose=purpose)
    errors = require("obstore.exceptions", extra="cloud", purpose=purpose)
    client = {**_TIMEOUTS, "allow_http": (endpoint or "").startswith("http:") or "use_emulator" in options}
    try:
        store = getattr(stores, kind)(
            name, prefix=prefix or None, config=options, client_options=client, retry_config=_RETRIES
        )
        return Bucket(store, shown, {*secrets, *_secrets_of_the_environment()})
    except (errors.BaseError, OSError, ValueError) as error:
        kind_of_error = type(error).__name__
    # Raised outside of the except block, so that the library's error, which may contain a secret, is not attached.
    raise ValueError(f"{purpose} cannot be used with these options ({kind_of_error}): check keys, tokens and files")


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
    return options, {*secrets, text}


def _from_account_url(url: str, credential: str | None) -> tuple[dict[str, Any], set[str]]:
    """Return the library's options for an Azure account URL, and the secrets among them."""
    bare, _, query = url.partition("?")
    endpoint = _checked_url(bare, "checkpoint_storage.account_url")
    options: dict[str, Any] = {"endpoint": endpoint, "account_name": _account_of(endpoint)}
    secret = credential or query
    if secret:
        is_signature = "sig=" in secret
        options["sas_key" if is_signature else "account_key"] = secret.removeprefix("?")
    return options, {secret, secret.removeprefix("?")} if secret else set()


def _account_of(endpoint: str) -> str:
    return str(urlsplit(endpoint).hostname).partition(".")[0]


def _checked_url(url: str, where: str) -> str:
    """Return a URL without trailing slash; raise ValueError, without showing it, if it is invalid or has a password."""
    if not is_endpoint(url):
        raise ValueError(f"{where} must be {URL}")
    return url.rstrip("/")


def _shown(scheme: str, name: str, prefix: str, endpoint: str | None) -> str:
    """Return the location as shown to users."""
    place = f"{scheme}://{name}" + (f"/{prefix}" if prefix else "")
    return f"{place} at {endpoint}" if endpoint else place


def _bucket_name(config: dict[str, Any], field: str) -> str:
    name = config[field]
    if not isinstance(name, str) or not _BUCKET_NAME.fullmatch(name):
        shown = f", got {name!r}" if "@" not in str(name) else ""  # not shown with an @: a password may precede it
        raise ValueError(f"checkpoint_storage.{field} must be a name of letters, digits, '.', '_' and '-'{shown}")
    return name


def _prefix(config: dict[str, Any]) -> str:
    return "/".join(part for part in (_text(config, "prefix") or "").split("/") if part not in ("", "."))


def _text(config: dict[str, Any], field: str) -> str | None:
    value = config.get(field)
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"checkpoint_storage.{field} must be a text that is not empty")
    return value


def _from_environment(*names: str) -> tuple[str, str | None]:
    """Return the name of the first of these variables that is set, for messages, and its value."""
    name = next((name for name in names if os.environ.get(name)), names[0])
    return f"the environment variable {name}", os.environ.get(name) or None


def _secrets_of_the_environment() -> set[str]:
    return {value for name, value in os.environ.items() if value and _SECRET_NAME.match(name)}
