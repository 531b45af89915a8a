"""Shared by the storage types of object stores: opening a bucket, and checks of its settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from determined.checkpoint_storage.bucket import Bucket
from determined.config.cloud_addresses import BUCKET_NAME, BUCKET_NAME_RULE, URL, is_endpoint
from determined.optional import require

# Short interruptions of a service are bridged; a longer one must fail, because the ranks wait for the checkpoint.
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


def open_bucket(
    kind: str,
    shown: str,
    name: str,
    prefix: str,
    options: dict[str, Any],
    endpoint: str | None,
    secrets: Iterable[str] = (),
) -> Bucket:
    """Open a bucket or container of a cloud with obstore, with time limits and retries."""
    purpose = f"the checkpoint storage {shown}"
    stores = require("obstore.store", extra="cloud", purpose=purpose)
    errors = require("obstore.exceptions", extra="cloud", purpose=purpose)
    # Plain HTTP is only allowed where the user wrote it: credentials would be sent unencrypted.
    client = {**_TIMEOUTS, "allow_http": (endpoint or "").startswith("http:") or "use_emulator" in options}
    try:
        store = getattr(stores, kind)(
            name, prefix=prefix or None, config=options, client_options=client, retry_config=_RETRIES
        )
        # Secrets of the environment too, because the library reads them too and may quote them in errors.
        return Bucket(store, shown, {*secrets, *_secrets_of_the_environment()})
    except (errors.BaseError, OSError, ValueError) as error:
        # Only the name of the error's class: its text may contain a key.
        kind_of_error = type(error).__name__
    # Raised outside of the except block, so that the library's error, which may contain a secret, is not attached.
    raise ValueError(f"{purpose} cannot be used with these options ({kind_of_error}): check keys, tokens and files")


def checked_url(url: str, where: str) -> str:
    """Return a URL without trailing slash; raise ValueError, without showing it, if it is invalid or has a password."""
    if not is_endpoint(url):
        raise ValueError(f"{where} must be {URL}")
    return url.rstrip("/")


def shown(scheme: str, name: str, prefix: str, endpoint: str | None) -> str:
    """Return the location as shown to users."""
    place = f"{scheme}://{name}" + (f"/{prefix}" if prefix else "")
    return f"{place} at {endpoint}" if endpoint else place


def bucket_name(name: Any, field: str) -> str:
    """Return the name of a bucket; raise ValueError if it is invalid."""
    if not isinstance(name, str) or not BUCKET_NAME.fullmatch(name):
        got = f", got {name!r}" if "@" not in str(name) else ""  # not shown with an @: a password may precede it
        raise ValueError(f"checkpoint_storage.{field} must be {BUCKET_NAME_RULE}{got}")
    return name


def checked_prefix(prefix: Any) -> str:
    """Return a prefix without empty parts; raise ValueError if it would lead out of itself."""
    text = filled_text(prefix, "prefix") or ""
    if ".." in text.split("/"):
        raise ValueError(f"checkpoint_storage.prefix must not contain '..', got {prefix!r}")
    return "/".join(part for part in text.split("/") if part not in ("", "."))


def filled_text(value: Any, field: str) -> str | None:
    """Return a setting that is a text or not set; raise ValueError, without showing it, for anything else."""
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"checkpoint_storage.{field} must be a text that is not empty")
    return value


def from_environment(*names: str) -> tuple[str, str | None]:
    """Return a phrase that names the first of these variables that is set, and its value.

    If none is set, return a phrase for the first of them and None.
    """
    name = next((name for name in names if os.environ.get(name)), names[0])
    return f"the environment variable {name}", os.environ.get(name) or None


def _secrets_of_the_environment() -> set[str]:
    return {value for name, value in os.environ.items() if value and _SECRET_NAME.match(name)}
