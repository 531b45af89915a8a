"""Validates addresses of object stores, URLs and Azure connection strings, without network access."""

from __future__ import annotations

import base64
import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from determined.config import validators

URL = "a URL such as https://host:9000, without user, password or query"
ACCOUNT_URL = "a URL such as https://account.blob.core.windows.net, without user or password"
CONNECTION_STRING = "a connection string with AccountName, and AccountKey or SharedAccessSignature"

# Google allows 222 characters, the most of the three services; each service checks its own rules.
BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,221}")
BUCKET_NAME_RULE = "a name of letters, digits, '.', '_' and '-'"

BucketName = Annotated[str, validators.matching(BUCKET_NAME.pattern, BUCKET_NAME_RULE)]


def _prefix(value: Any) -> str:
    """Return a prefix of objects; raise an error for one that leads out of itself."""
    if not isinstance(value, str) or ".." in value.split("/"):
        raise validators.refusal("a text without '..' as a part of the path")
    return value


Prefix = Annotated[str, validators.Check(_prefix)]

# Anything but visible ASCII has to be escaped in a URL.
_NOT_IN_URL = re.compile(r"[^!-~]")


def is_endpoint(url: str) -> bool:
    """Return whether a URL names only a server. Credentials in it would be shown in messages and logs."""
    try:
        parts = urlsplit(url)
        # Reading the port raises ValueError if it is no number.
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and not (parts.query or parts.fragment or "@" in parts.netloc or _NOT_IN_URL.search(url))


def connection_fields(text: str) -> dict[str, str]:
    """Return the fields of an Azure connection string.

    Raise `ValueError`, without showing the text, if it is invalid.
    """
    # The values of a connection string may contain `=`, as base64 does, so only the first one separates.
    fields = dict(part.strip().partition("=")[::2] for part in text.split(";") if part.strip())
    if fields.get("UseDevelopmentStorage", "").lower() == "true":
        return fields
    for name, url in (("BlobEndpoint", fields.get("BlobEndpoint")), ("EndpointSuffix", _by_suffix(fields))):
        if url and not is_endpoint(url):
            raise ValueError(f"{CONNECTION_STRING}, whose {name} makes {URL}")
    named = fields.get("AccountName") or fields.get("BlobEndpoint")
    if not named or not (fields.get("AccountKey") or fields.get("SharedAccessSignature")):
        raise ValueError(CONNECTION_STRING)
    if fields.get("AccountKey") and not is_account_key(fields["AccountKey"]):
        raise ValueError(f"{CONNECTION_STRING}, whose AccountKey is base64")
    return fields


def is_account_key(text: str) -> bool:
    """Return whether a text can be the key of an Azure account, which is base64."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def blob_endpoint(fields: dict[str, str]) -> str | None:
    """Return the server URL in a connection string; None if it follows from the account name alone."""
    endpoint = fields.get("BlobEndpoint") or _by_suffix(fields)
    return endpoint.rstrip("/") if endpoint else None


def _by_suffix(fields: dict[str, str]) -> str | None:
    """Return the server URL made of the account name and the endpoint suffix, or None."""
    if not fields.get("EndpointSuffix") or not fields.get("AccountName"):
        return None
    protocol = fields.get("DefaultEndpointsProtocol") or "https"
    return f"{protocol}://{fields['AccountName']}.blob.{fields['EndpointSuffix']}"
