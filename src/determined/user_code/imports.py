"""Import modules of another directory temporarily, and prevent code from starting a run while it is imported."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from determined.errors import InvalidExperimentException, TrainingOnImportError

# The error message for calls that start a run while code is imported that must not train. A context variable, because
# another thread may be training at the same time.
_refusal: ContextVar[Callable[[str], str] | None] = ContextVar("refusal", default=None)


@contextlib.contextmanager
def importing_checkpoint(name: str) -> Iterator[None]:
    """Raise TrainingOnImportError for calls that start a run inside this block, which imports a checkpoint's code."""
    with _refusing(
        lambda call: (
            f"the code of checkpoint {name} calls {call} when it is imported: loading the checkpoint would "
            f"train again. {how_to_load()}"
        )
    ):
        yield


@contextlib.contextmanager
def checking_entrypoint(spec: str) -> Iterator[None]:
    """Raise TrainingOnImportError for calls that start a run inside this block, which checks an entrypoint."""
    module = spec.partition(":")[0]
    with _refusing(
        lambda call: (
            f"{module} calls {call} when it is imported: it would train in this check, and once more in every "
            'trial. Put the lines that train under `if __name__ == "__main__":`, or let the entrypoint run the script: '
            f"entrypoint: python3 {module.replace('.', '/')}.py"
        )
    ):
        yield


def refuse_while_importing(call: str) -> None:
    """Raise `TrainingOnImportError` if code is being imported that must not start a run."""
    refusal = _refusal.get()
    if refusal is not None:
        raise TrainingOnImportError(refusal(call))


@contextlib.contextmanager
def _refusing(refusal: Callable[[str], str]) -> Iterator[None]:
    """Refuse the calls that open a run while the block runs, with the message that `refusal` returns."""
    token = _refusal.set(refusal)
    try:
        yield
    finally:
        _refusal.reset(token)


def how_to_load() -> str:
    """Return advice for a checkpoint whose class cannot be imported from its code."""
    return (
        "Pass the class: trial_class=MyTrial. For later checkpoints, put the lines that train under "
        '`if __name__ == "__main__":` in the script, which makes it safe to import, or define the class in a module'
    )


@contextlib.contextmanager
def import_from_path(path: str | os.PathLike[str]) -> Iterator[None]:
    """Prefer modules in `path` over others of the same name inside this block; restore the previous state afterwards.

    The imported modules stay alive through the objects taken from them; only `sys.modules` forgets them. Nothing is
    written to the directory, the working directory is unchanged, and blocks may be nested.
    """
    # Resolved, so that modules can be recognized by their files although `path` is a link.
    directory = Path(path).resolve()
    if not directory.is_dir():
        raise FileNotFoundError(f"import_from_path: {str(path)!r} is not a directory")
    offered = _top_level_names(directory)
    # Hidden and not only shadowed: an import would otherwise return the loaded module of the same name.
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in offered}
    # To tell modules that the block imported from those that existed before.
    before = dict(sys.modules)
    old_path, old_bytecode = list(sys.path), sys.dont_write_bytecode
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, str(directory))
    # Nothing may be written to the directory, which can be a checkpoint.
    sys.dont_write_bytecode = True
    # Import caches directory listings, and the directory may have been written a moment ago.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        # A copy, because modules are removed while it is searched.
        for name, module in list(sys.modules.items()):
            if before.get(name) is not module and _lies_in(module, directory):
                del sys.modules[name]
        sys.modules.update(hidden)
        sys.path[:] = old_path
        sys.dont_write_bytecode = old_bytecode
        # Otherwise a later import could be answered from a listing of a directory that was deleted.
        sys.path_importer_cache.pop(str(directory), None)


def import_class(spec: str) -> type[Any]:
    """Return the class that `module.path:Class` or `module.path:Outer.Inner` names."""
    module_name, colon, attributes = spec.partition(":")
    if not colon or not module_name or not attributes:
        raise InvalidExperimentException(
            f"{spec!r} does not name a trial class: write module:Class, for example model_def:MyTrial"
        )
    found: Any = importlib.import_module(module_name)
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise InvalidExperimentException(
                f"{_place_of(found)} has no class {attribute!r}{_similar_class_hint(found, attribute)}"
            )
        found = getattr(found, attribute)
    if not isinstance(found, type):
        raise InvalidExperimentException(f"{spec!r} names {found!r}, which is not a class")
    return found


def _place_of(found: Any) -> str:
    """Return the file of a module, relative to the working directory if it is below it, or the name of a class."""
    if not isinstance(found, ModuleType):
        return f"class {found.__name__!r}" if isinstance(found, type) else repr(found)
    file = getattr(found, "__file__", None)
    if file is None:
        return f"module {found.__name__!r}"
    path = Path(file).resolve()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _similar_class_hint(found: Any, name: str) -> str:
    """Return a hint with the most similar class name, or an empty text."""
    classes = [known for known, value in vars(found).items() if isinstance(value, type)]
    near = difflib.get_close_matches(name, classes, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _top_level_names(directory: Path) -> set[str]:
    """Return the names that `import` could find in the directory, without `__main__` and built-in modules."""
    names = set()
    for entry in directory.iterdir():
        if entry.is_dir():
            names.add(entry.name)
        elif entry.suffix in {".py", ".pyc", ".so", ".pyd"}:
            names.add(entry.name.partition(".")[0])
    # A plain directory `data` beside the code must not hide a loaded package `data`.
    plain = {name for name in names if (directory / name).is_dir() and not (directory / name / "__init__.py").exists()}
    kept = {name for name in plain if name in sys.modules and not _is_namespace(sys.modules[name])}
    # Built-in modules are found before any path, so hiding them would only break the program.
    return names - kept - {"__main__"} - set(sys.builtin_module_names)


def _is_namespace(module: ModuleType) -> bool:
    return getattr(module, "__file__", None) is None and hasattr(module, "__path__")


def _lies_in(module: ModuleType, directory: Path) -> bool:
    places = [getattr(module, "__file__", None), *_package_paths(module)]
    return any(place and Path(place).resolve().is_relative_to(directory) for place in places)


def _package_paths(module: ModuleType) -> list[str]:
    """Return the directories of a package; empty for a module that is none."""
    try:
        return list(getattr(module, "__path__", None) or [])
    except TypeError:  # modules with computed attributes may return anything
        return []
