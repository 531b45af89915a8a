"""Read and write the state file of a checkpoint without unpickling code."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from determined.errors import InvalidCheckpointException
from determined.pytorch.checkpoint.state_file import StateFile

# Where the current and earlier releases put the state file; the first one that exists is read.
STATE_FILES = (
    "state_dict.pth",
    "determined/state_dict.pth",
    "pedl/state_dict.pth",
    "data/state_dict.pth",
    "checkpoint.pt",
)


def read(directory: Path, name: str, **torch_load_kwargs: Any) -> dict[str, Any]:
    """Return the state stored in a checkpoint directory of any release.

    `name` is the checkpoint's name in messages. Further keywords go to `torch.load`, whose `weights_only` is on unless
    they override it. Raises InvalidCheckpointException for a file that is missing, damaged or could run code.
    """
    file = next((directory / one for one in STATE_FILES if (directory / one).is_file()), None)
    if file is None:
        raise InvalidCheckpointException(f"checkpoint {name} holds none of the state files {', '.join(STATE_FILES)}")
    # On the CPU: the file may come from a machine with other devices, and loading into a parameter moves its values.
    options = {"map_location": "cpu", "weights_only": True, **torch_load_kwargs}
    try:
        # Only inside this block: types that are allowed here must not become loadable for the rest of the program.
        with torch.serialization.safe_globals(_types_of_old_releases()):
            state = torch.load(file, **options)
    except pickle.UnpicklingError as error:
        raise InvalidCheckpointException(
            f"checkpoint {name} holds data that could run code when loaded, so it was not loaded: {first_line(error)} "
            '(if you trust its author: load_trial_from_checkpoint_path(..., torch_load_kwargs={"weights_only": False}))'
        ) from error
    except Exception as error:  # a damaged pickle can raise any exception
        raise InvalidCheckpointException(
            f"checkpoint {name} cannot be read: {file.name}: {first_line(error)}"
        ) from error
    if not isinstance(state, dict):
        raise InvalidCheckpointException(
            f"checkpoint {name} cannot be read: {file.name} holds a {type(state).__name__} where a dict is expected"
        )
    return state


def write(state: dict[str, Any], file: Path) -> str:
    """Write an encoded state to a file, flush it to disk, and return its SHA-256."""
    with StateFile(file) as opened:
        try:
            torch.save(state, opened)  # type: ignore[arg-type]
        except RuntimeError as error:
            # torch wraps a failed write into a RuntimeError of its zip
            # writer, in which the user would not see "No space left".
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None  # for example a full disk; torch's error only follows from it
            raise
    return opened.digest


def first_line(error: BaseException) -> str:
    """Return the line of a message that names the rejected type, or else its first line."""
    text = str(error).strip()
    wanted = [line.strip() for line in text.splitlines() if "GLOBAL" in line or "Unsupported" in line]
    return wanted[0] if wanted else (text.splitlines() or [type(error).__name__])[0]


def _types_of_old_releases() -> list[Any]:
    """Return the non-tensor types that releases 0.12 to 0.38 stored: numpy's random state, as an array of numbers."""
    from numpy._core import multiarray

    # Both names: numpy moved these functions in release 2, and a pickle names the module of the numpy that wrote it.
    reconstruct, scalar = multiarray._reconstruct, multiarray.scalar
    return [
        np.ndarray,
        np.dtype,
        *{type(np.dtype(kind)) for kind in ("uint32", "int64", "float64", "float32", "bool")},
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        (reconstruct, "numpy._core.multiarray._reconstruct"),
        (scalar, "numpy.core.multiarray.scalar"),
        (scalar, "numpy._core.multiarray.scalar"),
    ]
