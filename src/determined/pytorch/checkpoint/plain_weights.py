"""Export the weights of a checkpoint as plain files, for programs that do not use this library."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import torch

from determined.errors import InvalidCheckpointException
from determined.optional import require
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint import legacy
from determined.pytorch.checkpoint.directory import check_files

Format = Literal["torch", "safetensors"]
Weights = dict[str, Any]

_WRAPPERS = ("module.", "_orig_mod.")  # prefixes of (Distributed)DataParallel and of torch.compile


def read_weights(directory: Path, name: str) -> list[Weights]:
    """Return the weights of each model in a checkpoint of any release, under the names of the unwrapped models.

    Files are read by torch's restricted loader, which runs no code in them.
    """
    check_files(directory, name)
    state = legacy.modernise(checkpoint_format.read(directory, name), 1, 1, 1)
    models = state.get("models_state_dict")
    if not isinstance(models, list) or not models or not all(isinstance(model, dict) for model in models):
        raise InvalidCheckpointException(f"checkpoint {name} holds no weights of models")
    return [_bare(model) for model in models]


def write_weights(models: list[Weights], target: Path, form: Format, name: str) -> None:
    """Write weights to a new file, atomically; raise FileExistsError if the file exists.

    One model is written as its state dict. With several models, names are prefixed by the model's number: `0.`, `1.`
    and so on. Raises InvalidCheckpointException for values that are not tensors, which safetensors cannot store.
    """
    merged = (
        models[0]
        if len(models) == 1
        else {f"{number}.{key}": value for number, model in enumerate(models) for key, value in model.items()}
    )
    save = _save_torch if form == "torch" else _safetensors_saver(merged, name)
    # In the same directory, since a link or rename cannot cross file systems; the pid separates concurrent exports.
    draft = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        # Created first with its permissions: `torch.save` would create a file that other users can read.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        save(merged, draft)
        # Synced before it gets its name, so that a file under the final name is complete even after a power loss.
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        # safetensors replaces the file that was created above.
        draft.chmod(0o600)
        # A link fails if the target exists, so no other file is replaced, and the file appears complete.
        try:
            os.link(draft, target)
        except FileExistsError:
            raise
        except OSError:  # the file system does not support hard links
            os.rename(draft, target)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _bare(weights: Weights) -> Weights:
    """Return the weights without the prefixes of wrappers, which may be nested, as a plain dict."""
    changed = True
    while changed:
        changed = False
        for prefix in _WRAPPERS:
            shorter = legacy.without_prefix(weights, prefix)
            changed = changed or shorter is not weights
            weights = shorter
    return dict(weights)


def _save_torch(weights: Weights, path: Path) -> None:
    """Write weights with `torch.save`, in the form of the savers that `write_weights` chooses from."""
    torch.save(weights, path)


def _safetensors_saver(weights: Weights, name: str) -> Callable[[Weights, Path], None]:
    """Return a function that writes a safetensors file; raise if the weights cannot be written in that format."""
    torch_files = require("safetensors.torch", extra="safetensors", purpose="--format safetensors")
    others = [key for key, value in weights.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise InvalidCheckpointException(
            f"checkpoint {name} holds {others[0]!r}, which is not a tensor: a safetensors file cannot hold it; use "
            "--format torch"
        )

    def save(tensors: Weights, path: Path) -> None:
        # The format rejects tensors that share memory, such as tied embeddings, so each is copied.
        torch_files.save_file({key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()}, path)

    return save
