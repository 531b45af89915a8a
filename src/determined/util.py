"""The functions of Determined's `determined.util` that programs use."""

from __future__ import annotations

import copy
import logging
import random
import time
from typing import Any, NoReturn

logger = logging.getLogger("determined.util")


def merge_dicts(base_dict: dict[str, Any], source_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a new dict with the entries of both; nested dicts are merged, other values come from the second."""
    # Copied completely, so that changes of the result do not change the arguments.
    merged: dict[str, Any] = copy.deepcopy(base_dict)
    for key, value in source_dict.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = merge_dicts(known, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def download_gcs_blob_with_backoff(blob: Any, n_retries: int = 32, max_backoff: int = 32) -> bytes:
    """Return the content of an object in Google Cloud Storage, retrying with exponential backoff.

    Args:
        blob: an object of Google's own client (anything with `download_as_bytes` or `download_as_string`), or a text
            `gs://bucket/name`, which is read with the extra `cloud`.
        n_retries: the number of attempts; the error of the last one is raised.
        max_backoff: the longest pause in seconds.
    """
    if n_retries < 1:
        raise ValueError(f"n_retries must be 1 or more, got {n_retries!r}")
    download = _reader(blob)
    for attempt in range(n_retries):
        try:
            return bytes(download())
        except Exception as error:  # only the user's client knows which errors pass
            # The last error is raised as it is, and not wrapped: the caller may know its class.
            if attempt + 1 == n_retries:
                raise
            # With a random part, so that processes which failed together do not try again together.
            pause = min(2.0**attempt + random.random(), max_backoff)
            logger.warning("downloading %s failed (%s), trying again in %.1f s", blob, error, pause)
            time.sleep(pause)
    raise AssertionError("unreachable: the last try returns or raises")


def _reader(blob: Any) -> Any:
    """Return the function that downloads an object of Google's client, or a `gs://` text."""
    if isinstance(blob, str):
        return _cloud_reader(blob)
    for name in ("download_as_bytes", "download_as_string"):
        if callable(getattr(blob, name, None)):
            return getattr(blob, name)
    raise TypeError(f"blob must be a text gs://bucket/name or an object of Google's storage client, got {blob!r}")


def _cloud_reader(uri: str) -> Any:
    """Return a function that reads a `gs://` object with this library's own client."""
    from determined.checkpoint_storage.types.gcs import GcsSettings

    bucket_name, _, key = uri.removeprefix("gs://").partition("/")
    if not uri.startswith("gs://") or not bucket_name or not key:
        raise ValueError(f"expected gs://bucket/name, got {uri!r}")
    bucket = GcsSettings({"bucket": bucket_name}).open_bucket()

    def read() -> bytes:
        """Return the content of the object; raise FileNotFoundError if it does not exist."""
        content = bucket.get(key)
        if content is None:
            raise FileNotFoundError(f"there is no object {uri}")
        return content

    return read


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: only merge_dicts and download_gcs_blob_with_backoff are kept"
    )
