"""load_trial_from_checkpoint_path: a trial of any release, with the weights of a checkpoint."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from determined.code_import import import_from_path
from determined.errors import InvalidCheckpointException
from determined.pytorch import checkpoint_format, checkpoint_legacy
from determined.pytorch.binding import overridden
from determined.pytorch.checkpoint import check_files
from determined.pytorch.context import CheckpointLoadContext
from determined.pytorch.parallel import bare
from determined.pytorch.trial import PyTorchTrial

logger = logging.getLogger("determined.pytorch")


def load_trial_from_checkpoint_path(
    path: str | os.PathLike[str],
    trial_class: type[PyTorchTrial] | None = None,
    trial_kwargs: dict[str, Any] | None = None,
    torch_load_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> PyTorchTrial | torch.nn.Module:
    """Make the trial of a checkpoint directory again and load its weights.

    Only weights are loaded: optimizers, schedulers and counters start anew. Checkpoints of a first-generation trial
    (0.12) give the bare model.

    Args:
        path: the checkpoint's directory.
        trial_class: the class to make; without it the class is imported from the code in the checkpoint.
        trial_kwargs: further arguments of its constructor, after the context.
        torch_load_kwargs: options for `torch.load`. Files are read without running code that they may hold; for a file
            whose author you trust, `{"weights_only": False}` lifts that.
    """
    if kwargs:
        if torch_load_kwargs is not None:
            raise ValueError(f"give torch_load_kwargs or keyword arguments ({', '.join(kwargs)}), not both")
        warnings.warn(
            "keyword arguments for torch.load are deprecated: pass torch_load_kwargs={...}",
            FutureWarning,
            stacklevel=2,
        )
        torch_load_kwargs = kwargs
    directory = checkpoint_format.directory_at(path)
    check_files(directory, str(directory))
    about = _describe(directory)
    state = checkpoint_format.read(directory, str(directory), **(torch_load_kwargs or {}))

    if trial_class is None:
        trial_class = _import_class(directory, about["trial_cls_spec"], about["main_script"])
    context = CheckpointLoadContext(about["hparams"], about["experiment_config"])
    trial = trial_class(context, **(trial_kwargs or {}))

    if not context.models and overridden(trial, "build_model", PyTorchTrial):
        model = trial.build_model()
        _load_models([model], state, directory)
        return model
    _load_models(context.models, state, directory)
    return trial


def _load_models(models: list[torch.nn.Module], state: dict[str, Any], directory: Path) -> None:
    stored = checkpoint_legacy.modernise(state, len(models), 0, 0).get("models_state_dict") or []
    if len(stored) != len(models):
        raise InvalidCheckpointException(
            f"checkpoint {directory} holds the weights of {len(stored)} models, and the trial wrapped {len(models)}"
        )
    for model, weights in zip(models, stored, strict=True):
        checkpoint_legacy.load_weights(bare(model), weights)


def _describe(directory: Path) -> dict[str, Any]:
    """Which class, hyperparameters and configuration the checkpoint was made with."""
    about: dict[str, Any] = {"trial_cls_spec": None, "hparams": None, "experiment_config": None, "main_script": None}
    for name in ("load_data.json", "metadata.json"):
        if not (directory / name).is_file():
            continue
        try:
            found = json.loads((directory / name).read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InvalidCheckpointException(f"checkpoint {directory} cannot be read: {name}: {error}") from error
        if not isinstance(found, dict):
            raise InvalidCheckpointException(f"checkpoint {directory} cannot be read: {name} holds no object")
        if name == "load_data.json":
            if found.get("trial_type") != "PyTorchTrial":
                logger.warning("checkpoint %s is of a %s, not of a PyTorchTrial", directory, found.get("trial_type"))
            return {**about, **found}
        config = found.get("experiment_config")
        if config is not None:
            return {**about, **found, "trial_cls_spec": config.get("entrypoint")}
    return about


def _import_class(directory: Path, spec: Any, main_script: str | None) -> type[PyTorchTrial]:
    """The class `module:Name.Nested` out of the checkpoint's own code."""
    code = directory / "code"
    if not isinstance(spec, str) or ":" not in spec:
        raise AssertionError(
            f"checkpoint {directory} does not say which trial class it belongs to: pass trial_class (old ones say it "
            "in a metadata.json that the download added)"
        )
    if not code.is_dir():
        raise ValueError(f"checkpoint {directory} holds no code: pass trial_class")
    module, _, name = spec.partition(":")
    # Modules are found from the program's directory, and first from that of its main script, as Python does.
    script = code / main_script if isinstance(main_script, str) else None
    if script is not None and not (script.is_file() and script.resolve().is_relative_to(code.resolve())):
        script = None
    if module == "__main__":
        module = script.stem if script is not None else _module_that_defines(code, name)
    try:
        with import_from_path(code), import_from_path(script.parent) if script is not None else nullcontext():
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ValueError(
            f"the trial class {spec!r} of checkpoint {directory} cannot be imported: {error}; pass trial_class"
        ) from error
    except SystemExit as error:
        raise ValueError(
            f"the code of checkpoint {directory} ends the program when it is imported; pass trial_class"
        ) from error
    assert isinstance(found, type), f"{spec!r} of checkpoint {directory} is no class"
    assert issubclass(found, PyTorchTrial), f"{spec!r} of checkpoint {directory} does not derive from PyTorchTrial"
    return found


def _module_that_defines(code: Path, name: str) -> str:
    """A class of the program's main script: looked for by its name, since `__main__` is another program now."""
    definition = re.compile(rf"^class\s+{re.escape(name.split('.')[0])}\b", re.MULTILINE)
    found = [
        file
        for file in sorted(code.rglob("*.py"))
        if definition.search(file.read_text(encoding="utf-8", errors="replace"))
    ]
    if len(found) != 1:
        places = ", ".join(str(file.relative_to(code)) for file in found) or "none"
        raise ValueError(
            f"the trial class {name!r} was defined in the main script, and the files in the checkpoint that define it "
            f"are: {places}; pass trial_class"
        )
    return ".".join(found[0].relative_to(code).with_suffix("").parts)
