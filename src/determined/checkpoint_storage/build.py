"""Create a checkpoint storage from the text or dict that a user wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from determined import paths
from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.directory import DirectoryStorage

# Required and optional fields of each type. The retention numbers (_COMMON) are used by the experiment.
_COMMON = {"type", "save_experiment_best", "save_trial_best", "save_trial_latest"}
_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "shared_fs": (
        {"host_path"},
        {"storage_path", "container_path", "propagation", "checkpoint_path", "tensorboard_path"},
    ),
    "directory": ({"container_path"}, set()),
    "s3": ({"bucket"}, {"access_key", "secret_key", "endpoint_url", "prefix"}),
    "gcs": ({"bucket"}, {"prefix"}),
    "azure": ({"container"}, {"connection_string", "account_url", "credential"}),
}


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
    if storage.get("type") == "shared_fs":
        raise ValueError(
            "checkpoint_storage of type shared_fs speaks about a cluster's mounts: give the directory as a "
            "string, or as {'type': 'directory', 'container_path': ...}"
        )
    return build_from_config(storage)


def build_from_config(config: dict[str, Any]) -> CheckpointStorage:
    """Return the storage for the `checkpoint_storage` block of an experiment configuration."""
    kind = _check_fields(config)
    if kind == "directory":
        return DirectoryStorage(_path(config, "container_path"))
    if kind == "shared_fs":
        return DirectoryStorage(_shared_fs_root(config))
    if kind == "azure":
        _check_azure(config)
    else:
        _check_prefix(config.get("prefix"))
    return _cloud_storage(kind, config)


def _cloud_storage(kind: str, config: dict[str, Any]) -> CheckpointStorage:
    # Imported on use: most runs keep checkpoints in a directory, and would have to wait for this import.
    from determined.checkpoint_storage import clouds
    from determined.checkpoint_storage.cloud import CloudStorage

    make = {"azure": clouds.azure_bucket, "s3": clouds.s3_bucket, "gcs": clouds.gcs_bucket}[kind]
    return CloudStorage(make(config))


def _from_string(text: str) -> CheckpointStorage:
    """Return the storage for a directory or a file:, s3: or gs: URI; raise ValueError for anything else."""
    if not text:
        raise ValueError("checkpoint_storage is an empty string: give a directory, s3://bucket or gs://bucket")
    if "\0" in text:
        raise ValueError(f"checkpoint_storage holds a NUL character: {text!r}")
    url = urlparse(text)
    if url.scheme == "" and "://" not in text:
        return DirectoryStorage(os.path.expanduser(text))
    if "@" in url.netloc:
        raise ValueError(
            f"checkpoint_storage: a {url.scheme}: URI takes no user or password; give keys as "
            "{'type': 's3', 'access_key': ..., ...} or in the environment"
        )
    for part in ("query", "fragment", "params"):
        if getattr(url, part):  # the content is not shown, because it may be a secret
            raise ValueError(f"checkpoint_storage {url.scheme}://{url.netloc}{url.path}: a {part} is not allowed")
    if url.scheme == "file":
        if url.netloc:
            raise ValueError(f"checkpoint_storage {text!r}: a file: URI takes no host, got {url.netloc!r}")
        return DirectoryStorage(_absolute(unquote(url.path), "checkpoint_storage"))
    if url.scheme in {"s3", "gs"}:
        if not url.netloc:
            raise ValueError(f"checkpoint_storage {text!r} names no bucket: write {url.scheme}://bucket/prefix")
        kind = "s3" if url.scheme == "s3" else "gcs"
        return build_from_config({"type": kind, "bucket": url.netloc, "prefix": unquote(url.path) or None})
    raise ValueError(f"checkpoint_storage {text!r}: {url.scheme!r} is not known; use a directory, file:, s3: or gs:")


def _check_fields(config: dict[str, Any]) -> str:
    """Return the type of a configuration block; raise ValueError for missing and unknown fields."""
    kind = config.get("type")
    if kind is None:
        raise ValueError(f"checkpoint_storage needs a 'type': one of {', '.join(_FIELDS)}")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise ValueError(f"checkpoint_storage: the type {kind!r} is not known; use one of {', '.join(_FIELDS)}")
    required, optional = _FIELDS[kind]
    missing = sorted(name for name in required if config.get(name) is None)
    if missing:
        raise ValueError(f"checkpoint_storage of type {kind} needs {', '.join(missing)}")
    unknown = sorted(str(name) for name in config if name not in required | optional | _COMMON)
    if unknown:
        raise ValueError(f"checkpoint_storage of type {kind} does not know {', '.join(unknown)}")
    return kind


def _shared_fs_root(config: dict[str, Any]) -> Path:
    """Return the directory of a shared_fs block; raise ValueError if it is not below host_path."""
    host_path = _absolute(_path(config, "host_path"), "checkpoint_storage.host_path")
    if config.get("storage_path") is None:
        return host_path
    root = Path(os.path.normpath(host_path / _path(config, "storage_path")))
    if not root.is_relative_to(os.path.normpath(host_path)):
        raise ValueError(
            f"checkpoint_storage.storage_path must lie below host_path {str(host_path)!r}, "
            f"got {config['storage_path']!r}"
        )
    return root


def _path(config: dict[str, Any], name: str) -> str:
    value = config[name]
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or "\0" in os.fspath(value):
        raise ValueError(f"checkpoint_storage.{name} must be a path, got {value!r}")
    return os.fspath(value)


def _absolute(path: str, where: str) -> Path:
    if not os.path.isabs(path):
        raise ValueError(f"{where} must be an absolute path, got {path!r}")
    return Path(path)


def _check_prefix(prefix: Any) -> None:
    if prefix is not None and ".." in str(prefix).split("/"):
        raise ValueError(f"checkpoint_storage.prefix must not contain '..', got {prefix!r}")


def _check_azure(config: dict[str, Any]) -> None:
    given = [name for name in ("connection_string", "account_url") if config.get(name) is not None]
    if len(given) != 1:
        raise ValueError("checkpoint_storage of type azure needs exactly one of connection_string and account_url")
    if given == ["connection_string"] and config.get("credential") is not None:
        raise ValueError("checkpoint_storage of type azure takes no credential beside a connection_string")
