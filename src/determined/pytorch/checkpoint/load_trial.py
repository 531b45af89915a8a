"""`load_trial_from_checkpoint_path`: create a trial of any release with the weights of a checkpoint."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from determined.errors import InvalidCheckpointException, TrainingOnImportError
from determined.pytorch.binding import overridden
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint import legacy
from determined.pytorch.checkpoint.directory import check_files, directory_at
from determined.pytorch.checkpoint.trial_description import read_description
from determined.pytorch.checkpoint.trial_states import decode_weights
from determined.pytorch.context import CheckpointLoadContext
from determined.pytorch.ranks.data_parallel import bare
from determined.pytorch.trial import PyTorchTrial
from determined.sentences import counted
from determined.user_code.imports import how_to_load, import_from_path, importing_checkpoint


def load_trial_from_checkpoint_path(
    path: str | os.PathLike[str],
    trial_class: type[PyTorchTrial] | None = None,
    trial_kwargs: dict[str, Any] | None = None,
    torch_load_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> PyTorchTrial | torch.nn.Module:
    """Create the trial of a checkpoint directory, load its weights and return it.

    Only weights are loaded, not the states of optimizers and schedulers, nor counters. For a checkpoint of a
    first-generation trial (0.12) the model itself is returned. Nothing is trained.

    Args:
        path: the directory of the checkpoint.
        trial_class: the class to create; without it the class is imported from the code in the checkpoint.
        trial_kwargs: further arguments of its constructor, after the context.
        torch_load_kwargs: options for `torch.load`. By default files are read without running code that they may
            contain; for a file whose author you trust, pass `{"weights_only": False}`.

    Raises CheckpointNotFound if there is no such directory, InvalidCheckpointException if its files are damaged or do
    not fit the trial, ValueError if the class cannot be imported, and TrainingOnImportError if the code in the
    checkpoint starts a run when it is imported.
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
    directory = directory_at(path)
    # Before the class is imported: damage must be reported even if the code does not import here.
    check_files(directory, str(directory))
    about = read_description(directory)
    state = checkpoint_format.read(directory, str(directory), **(torch_load_kwargs or {}))

    if trial_class is None:
        trial_class = _import_class(directory, about)
    context = CheckpointLoadContext(about["hparams"], about["experiment_config"])
    trial = trial_class(context, **(trial_kwargs or {}))

    # Only a trial that wrapped nothing is of the first generation: later ones may have a helper of that name.
    if not context.models and overridden(trial, "build_model", PyTorchTrial):
        model = trial.build_model()
        _load_models([model], state, directory)
        return model
    _load_models(context.models, state, directory)
    return trial


def _load_models(models: list[torch.nn.Module], state: dict[str, Any], directory: Path) -> None:
    """Load the weights in `state` into the models; raise InvalidCheckpointException if their numbers differ."""
    # Optimizers and schedulers are not loaded, so their number does not matter.
    modern = legacy.modernise(state, len(models), 0, 0)
    stored = decode_weights(modern, models, str(directory)).get("models_state_dict") or []
    if len(stored) != len(models):
        raise InvalidCheckpointException(
            f"checkpoint {directory} holds the weights of {counted(len(stored), 'model')}, "
            f"and the trial wrapped {len(models)}"
        )
    for model, weights in zip(models, stored, strict=True):
        legacy.load_weights(bare(model), weights)


def _import_class(directory: Path, about: dict[str, Any]) -> type[PyTorchTrial]:
    """Import and return the class `module:Name.Nested` from the code in the checkpoint, without starting a run."""
    spec, code = about["trial_cls_spec"], directory / "code"
    if not isinstance(spec, str) or ":" not in spec:
        raise AssertionError(
            f"checkpoint {directory} does not say which trial class it belongs to: pass trial_class (old ones say it "
            "in a metadata.json that the download added)"
        )
    if not code.is_dir():
        raise ValueError(f"checkpoint {directory} holds no code: pass trial_class")
    module, _, name = spec.partition(":")
    script = _inside(code, about["main_script"])
    if module == "__main__":
        module = _main_module(directory, name, about["main_module"], script)
    try:
        with importing_checkpoint(str(directory)), _importable(code, script, about["import_paths"]):
            found: Any
            if script is not None and module == script.stem and "." in module:
                found = _import_file(script)  # import_module would take `train.v2` for a module of a package `train`
            else:
                found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
    except TrainingOnImportError:
        raise
    # A script without a main guard may call sys.exit(), which must not end the program that loads a checkpoint.
    except SystemExit as error:
        raise ValueError(
            f"the code of checkpoint {directory} ends the program when it is imported. {how_to_load()}"
        ) from error
    except Exception as error:
        raise ValueError(
            f"the trial class {spec!r} of checkpoint {directory} cannot be imported: {type(error).__name__}: {error}. "
            f"{how_to_load()}"
        ) from error
    assert isinstance(found, type), f"{spec!r} of checkpoint {directory} is no class"
    assert issubclass(found, PyTorchTrial), f"{spec!r} of checkpoint {directory} does not derive from PyTorchTrial"
    return found


def _main_module(directory: Path, name: str, main_module: Any, script: Path | None) -> str:
    """Return the module name under which the main script of the saved run can be imported.

    `__main__` cannot be used: in this process it is a different program.
    """
    if isinstance(main_module, str):
        return main_module
    if script is not None and script.suffix == ".py":
        return script.stem
    raise ValueError(
        f"the trial class {name!r} of checkpoint {directory} was defined in a notebook, in an interactive session, "
        f"or in a script that is not in the checkpoint, so it cannot be imported. {how_to_load()}"
    )


def _import_file(script: Path) -> ModuleType:
    """Import a script whose file name is not a valid module name."""
    name = script.stem.replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up the module of a class there while it is executed
    spec.loader.exec_module(module)
    return module


@contextmanager
def _importable(code: Path, script: Path | None, import_paths: Any) -> Iterator[None]:
    """Make the modules of a checkpoint importable inside the block.

    The import paths of the saved program are searched first, then the directory of the code.
    """
    found = [_inside(code, path) for path in import_paths] if isinstance(import_paths, list) else []
    places = [path for path in found if path is not None and path.is_dir()]
    if script is not None and script.parent not in places:
        places.insert(0, script.parent)
    with ExitStack() as stack:
        for place in dict.fromkeys([code, *reversed(places)]):  # the last one is searched first
            stack.enter_context(import_from_path(place))
        yield


def _inside(code: Path, relative: Any) -> Path | None:
    """Return a path below `code`, or None if it does not exist or leads elsewhere, as a malicious file may claim."""
    if not isinstance(relative, str) or "\0" in relative:
        return None
    path = code / relative
    # `resolve` follows links, so that a link inside the code cannot lead out of it.
    return path if path.exists() and path.resolve().is_relative_to(code.resolve()) else None
