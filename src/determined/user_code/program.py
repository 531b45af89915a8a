"""Identify the program that this process runs: a script, a module, a notebook, a test, or code without a file."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

Kind = Literal["script", "module", "notebook", "test", "interactive"]

_PACKAGE = Path(__file__).resolve().parent
# Not from `sysconfig`, which would first read Python's build settings. Resolved for comparisons, because Python may be
# reached through links, as in virtual environments.
_STANDARD_LIBRARY = Path(os.__file__).resolve().parent

# Processes of these packages run functions of many programs, so their main file does not identify a program.
_SHARED_WORKERS = {"celery", "distributed", "execnet", "gunicorn", "ipykernel", "joblib", "ray", "uvicorn"}


class Program(NamedTuple):
    """The program that this process runs. `file` is its real path, or None for code that was typed in or piped."""

    kind: Kind
    file: Path | None
    module: str | None = None  # dotted name given to `python -m`

    @property
    def label(self) -> str:
        """The path of the program; for code without a file, the working directory and how it was started."""
        if self.file is not None:
            return str(self.file)
        try:
            directory = os.getcwd()
        except OSError:  # the directory was deleted
            directory = ""
        return f"{directory}{os.sep}[{os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else 'interactive'}]"


def this_program() -> Program:
    """Return the program that this process runs.

    Worker processes of `multiprocessing` count as the program that started them.
    """
    main = sys.modules.get("__main__")
    if _is_kernel() and getattr(main, "__file__", None) is None:
        return Program("notebook", _notebook_file(main))
    file, module = _main_file(main)
    if file is None or _is_pytest(file, module):
        tested = _test_file()
        if tested is not None:
            return Program("test", tested)
    if file is None or file.is_relative_to(_PACKAGE) or _is_shared_worker(file, module):
        return Program("interactive", None)
    return Program("script" if module is None else "module", file, module)


def is_interactive() -> bool:
    """Return whether code is typed into this process: at a Python prompt, in IPython or in a notebook.

    The variables of such a session are the user's work: an interrupt must end what is running, not the process.
    """
    if _is_worker_process():
        return False
    # `ps1` exists at a prompt, and `flags.interactive` with `python -i`, whose script runs before the prompt.
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or ipython_shell() is not None


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which can show more than text."""
    shell = ipython_shell()
    return shell is not None and getattr(shell, "kernel", None) is not None


def end_ipython() -> None:
    """Let IPython exit after the code that is running; a SystemExit alone would not end it."""
    shell = ipython_shell()
    if shell is not None:
        shell.ask_exit()


def _main_file(main: ModuleType | None) -> tuple[Path | None, str | None]:
    """Return the file of the main program, and its dotted name if it was started by `python -m`."""
    file = _user_file(getattr(main, "__file__", None))
    if file is not None:
        name = getattr(getattr(main, "__spec__", None), "name", None)
        # `python directory` and `python archive.zip` have a name as well: `__main__`.
        return file, name if isinstance(name, str) and name != "__main__" else None
    if ipython_shell() is not None:
        return None, None  # its arguments refer to IPython itself
    # A profiler or tracer of the standard library takes the script from sys.argv.
    return _user_file(sys.argv[0] if sys.argv else None), None


def _user_file(name: Any) -> Path | None:
    """Return the real path of a file; None if it does not exist or belongs to the standard library."""
    if not isinstance(name, str) or not name:
        return None
    try:
        file = Path(name).resolve()
    except OSError:  # a relative name in a deleted working directory
        return None
    return file if file.is_file() and not _is_standard_library(file) else None


def _is_standard_library(file: Path) -> bool:
    return file.is_relative_to(_STANDARD_LIBRARY) and not {"site-packages", "dist-packages"} & set(file.parts)


def _is_shared_worker(file: Path, module: str | None) -> bool:
    """Return whether the main file belongs to a package whose workers run functions of many programs."""
    if module is not None:
        return module.partition(".")[0] in _SHARED_WORKERS
    installed = file.is_relative_to(Path(sys.prefix).resolve())
    return installed and not _SHARED_WORKERS.isdisjoint({file.stem, *file.parts})


# Notebooks


def ipython_shell() -> Any:
    """Return the IPython shell of this process, or None."""
    # Not imported: if the program has not, there is no shell, and the import takes long.
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def _is_kernel() -> bool:
    """Return whether this process is a notebook kernel or a worker of one."""
    shell = ipython_shell()
    if shell is not None:
        return getattr(shell, "kernel", None) is not None
    # A spawned worker of a kernel has the kernel's arguments but no shell.
    started_as = os.path.basename(sys.argv[0]) if sys.argv else ""
    return _is_worker_process() and started_as == "ipykernel_launcher.py"


def _notebook_file(main: ModuleType | None) -> Path | None:
    """Return the file of the notebook, or None if it is unknown."""
    named = getattr(main, "__vsc_ipynb_file__", None)  # set by Visual Studio Code
    if not isinstance(named, str):
        named = os.environ.get("JPY_SESSION_NAME")  # set by Jupyter for the kernel of this notebook
        if not named or (not _is_worker_process() and _parent_has("JPY_SESSION_NAME", named)):
            # The kernel was started from inside another notebook, for example by nbconvert: the name refers to that
            # one.
            return None
    file = Path(named).resolve()
    return file if file.is_file() else None  # a console has a name but no file


def _is_worker_process() -> bool:
    multiprocessing = sys.modules.get("multiprocessing.process")  # loaded in every worker
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def _parent_has(variable: str, value: str) -> bool:
    """Return whether the parent process has an environment variable with this value."""
    try:
        environment = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(f"{variable}={value}") in environment.split(b"\0")


# Tests


def _is_pytest(file: Path, module: str | None) -> bool:
    return file.name in ("pytest", "py.test") or (module or "").partition(".")[0] == "pytest"


def _test_file() -> Path | None:
    """Return the file of the running test: all tests of an environment are started by the same script."""
    current = os.environ.get("PYTEST_CURRENT_TEST")
    if "_pytest" not in sys.modules or not current:
        return None
    return _loaded_file(os.sep + current.partition("::")[0].replace("/", os.sep))


@functools.lru_cache(maxsize=1)  # a run asks several times, and a process with all of torch has thousands of modules
def _loaded_file(ending: str) -> Path | None:
    """Return the real path of the first module that was loaded from a file whose path ends like this."""
    for module in list(sys.modules.values()):
        # Not by getattr, because modules that load their parts on demand may do so for any name.
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and file.endswith(ending):
            return Path(file).resolve()
    return None
