"""The weights of a checkpoint as plain files, for programs that do not use this library."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import torch

from determined.errors import InvalidCheckpointException
from determined.optional import require
from determined.pytorch import checkpoint_format, checkpoint_legacy
from determined.pytorch.checkpoint import check_files

Format = Literal["torch", "safetensors"]
Weights = dict[str, Any]

_WRAPPERS = ("module.", "_orig_mod.")  # of DistributedDataParallel and DataParallel, and of torch.compile


def read_weights(directory: Path, name: str) -> list[Weights]:
    """Return the weights of each model of a checkpoint of any release, under the names that the bare models use.

    Files are read by the restricted loader: nothing in them is run.
    """
    check_files(directory, name)
    state = checkpoint_legacy.modernise(checkpoint_format.read(directory, name), 1, 1, 1)
    models = state.get("models_state_dict")
    if not isinstance(models, list) or not models or not all(isinstance(model, dict) for model in models):
        raise InvalidCheckpointException(f"checkpoint {name} holds no weights of models")
    return [_bare(model) for model in models]


def write_weights(models: list[Weights], target: Path, form: Format, name: str) -> None:
    """Write weights into a new file; it appears complete or not at all, and does not replace another one.

    One model is written as its state dict. Of several models each has its number before its names: `0.`, `1.` and so
    on. Values that are not tensors, which a safetensors file cannot hold, are refused.
    """
    merged = (
        models[0]
        if len(models) == 1
        else {f"{number}.{key}": value for number, model in enumerate(models) for key, value in model.items()}
    )
    save = _save_torch if form == "torch" else _safetensors_saver(merged, name)
    draft = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        save(merged, draft)
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        draft.chmod(0o600)
        try:
            os.link(draft, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.rename(draft, target)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _bare(weights: Weights) -> Weights:
    """Return the names without the prefixes of wrappers, which may be nested, as plain data."""
    changed = True
    while changed:
        changed = False
        for prefix in _WRAPPERS:
            shorter = checkpoint_legacy.without_prefix(weights, prefix)
            changed = changed or shorter is not weights
            weights = shorter
    return dict(weights)


def _save_torch(weights: Weights, path: Path) -> None:
    torch.save(weights, path)


def _safetensors_saver(weights: Weights, name: str) -> Callable[[Weights, Path], None]:
    torch_files = require("safetensors.torch", extra="safetensors", purpose="--format safetensors")
    others = [key for key, value in weights.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise InvalidCheckpointException(
            f"checkpoint {name} holds {others[0]!r}, which is not a tensor: a safetensors file cannot hold it; use "
            "--format torch"
        )

    def save(tensors: Weights, path: Path) -> None:
        # Tensors that share memory, such as tied embeddings, are refused by the format: each gets its own copy.
        torch_files.save_file({key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()}, path)

    return save
