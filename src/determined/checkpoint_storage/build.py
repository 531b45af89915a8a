"""Create a checkpoint storage from the text or dict that a user wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from determined import paths
from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.directory import DirectoryStorage
from determined.checkpoint_storage.settings import StorageSettings
from determined.config.registry.implementation import load
from determined.config.registry.storage_types import STORAGE_TYPES, storage_type


def build_from_argument(storage: str | dict[str, Any] | None) -> CheckpointStorage:
    """Return the storage for the `checkpoint_storage` argument of `core.init`; None means the user's data directory.

    Earlier versions kept checkpoints of standalone runs at the top of the data directory: these are still found.
    """
    if storage is None:
        return DirectoryStorage(paths.checkpoints_dir(), earlier=DirectoryStorage(paths.data_dir()))
    if isinstance(storage, str):
        return _from_string(storage)
    if not isinstance(storage, dict):
        raise TypeError(f"checkpoint_storage takes a str, a dict or None, got {storage!r}")
    refused = _settings_class(storage).not_as_argument
    if refused:
        raise ValueError(f"checkpoint_storage of type {storage['type']} {refused}")
    return build_from_config(storage)


def build_from_config(config: dict[str, Any]) -> CheckpointStorage:
    """Return the storage for the `checkpoint_storage` block of an experiment configuration."""
    return _settings_class(config)(config).build()


def _settings_class(config: dict[str, Any]) -> type[StorageSettings]:
    """Return the class of the storage type that a block names. Raise ValueError if it names none."""
    kind = config.get("type")
    found = storage_type(kind)
    if kind is None:
        raise ValueError(f"checkpoint_storage needs a 'type': one of {', '.join(STORAGE_TYPES)}")
    if found is None:
        raise ValueError(f"checkpoint_storage: the type {kind!r} is not known; use one of {', '.join(STORAGE_TYPES)}")
    settings: type[StorageSettings] = load(found.implementation)
    return settings


def _from_string(text: str) -> CheckpointStorage:
    """Return the storage for a directory or a URI, as s3://bucket; raise ValueError for anything else."""
    # Only types that are completely described by a bucket and a prefix can be written as a URI.
    types = {kind.uri_scheme: name for name, kind in STORAGE_TYPES.items() if kind.uri_scheme is not None}
    if not text:
        examples = " or ".join(f"{scheme}://bucket" for scheme in types)
        raise ValueError(f"checkpoint_storage is an empty string: give a directory, {examples}")
    # No path can contain NUL, and the error of the operating system would not name the argument.
    if "\0" in text:
        raise ValueError(f"checkpoint_storage holds a NUL character: {text!r}")
    url = urlparse(text)
    if url.scheme == "" and "://" not in text:
        return DirectoryStorage(os.path.expanduser(text))
    if "@" in url.netloc:
        advice = _settings_class({"type": types[url.scheme]}).credentials_advice if url.scheme in types else ""
        raise ValueError(f"checkpoint_storage: a {url.scheme}: URI takes no user or password{advice and f'; {advice}'}")
    for part in ("query", "fragment", "params"):
        if getattr(url, part):  # the content is not shown, because it may be a secret
            raise ValueError(f"checkpoint_storage {url.scheme}://{url.netloc}{url.path}: a {part} is not allowed")
    if url.scheme == "file":
        return _from_file_uri(text, url.netloc, unquote(url.path))
    if url.scheme in types:
        if not url.netloc:
            raise ValueError(f"checkpoint_storage {text!r} names no bucket: write {url.scheme}://bucket/prefix")
        block = {"type": types[url.scheme], "bucket": url.netloc, "prefix": unquote(url.path) or None}
        return build_from_config(block)
    *others, last = ["file", *types]
    known = f"{', '.join(f'{scheme}:' for scheme in others)} or {last}:"
    raise ValueError(f"checkpoint_storage {text!r}: {url.scheme!r} is not known; use a directory, {known}")


def _from_file_uri(text: str, host: str, path: str) -> CheckpointStorage:
    """Return the storage for a `file:` URI; raise ValueError for one with a host or a relative path."""
    if host:
        raise ValueError(f"checkpoint_storage {text!r}: a file: URI takes no host, got {host!r}")
    if not os.path.isabs(path):
        raise ValueError(f"checkpoint_storage must be an absolute path, got {path!r}")
    return DirectoryStorage(Path(path))
