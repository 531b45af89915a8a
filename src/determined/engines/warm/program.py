"""Run a Python program as the main program of this process, as `python` would, including its exit code."""

from __future__ import annotations

import atexit
import builtins
import importlib.machinery
import importlib.util
import os
import signal
import sys
import threading
import types
from types import CodeType, TracebackType

from determined.engines.command import Module, Script, as_argv


class _Refused(Exception):
    """The program cannot be loaded: the message and exit code are those of the Python interpreter."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def run(command: Script | Module) -> int:
    """Run the program and then the shutdown steps of the interpreter; return the exit code."""
    try:
        code, main = _load(command)
        # In the namespace of the new `__main__`, so that pickle and inspect find the program there.
        exec(code, main.__dict__)
        status = 0
    except SystemExit as stop:
        status = _exit_code(stop)
    except _Refused as refusal:
        sys.stderr.write(f"{sys.executable}: {refusal}\n")
        status = refusal.code
    except BaseException as error:  # noqa: BLE001  (printed by the hook, as by the interpreter)
        trace = _without_own_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    # Private functions, because the caller ends with os._exit(): without them non-daemon threads would be cut off and
    # exit functions (atexit) would not run.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the program may have closed or replaced them
            # The exit code of Python when its output cannot be flushed.
            status = status or 120
    return status


def _load(command: Script | Module) -> tuple[CodeType, types.ModuleType]:
    """Return the code of the program and the `__main__` module in which to run it."""
    main = types.ModuleType("__main__")
    # In `__main__` of Python this is the module, and exec() would insert its dict.
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    # As `python -P`, which the user may have chosen by PYTHONSAFEPATH.
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, first_import_directory(command))
    if isinstance(command, Script):
        sys.argv = list(command.argv)
        code = _load_script(main, command.argv[0])
    else:
        # As `python -m` does while it looks for the module.
        sys.argv = ["-m", *command.argv[1:]]
        code = _load_module(main, command.argv[0])
        sys.argv[0] = main.__file__ or ""
    sys.orig_argv = as_argv(command)
    return code, main


def _load_script(main: types.ModuleType, path: str) -> CodeType:
    """Return the code of a script; raise _Refused if the file cannot be read."""
    full = os.path.abspath(path)
    main.__file__ = full
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", full)
    try:
        with open(full, "rb") as file:
            source = file.read()
    except OSError as error:
        raise _Refused(f"can't open file {full!r}: [Errno {error.errno}] {error.strerror}", 2) from None
    # The `annotations` future of this file must not apply to the program.
    return compile(source, full, "exec", dont_inherit=True)


def _load_module(main: types.ModuleType, name: str) -> CodeType:
    """Return the code of a module, or of the `__main__` of a package; raise _Refused if there is none."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise _Refused(f"Error while finding module specification for {name!r} ({error})", 1) from None
    # Other loaders, such as those of zip files or extensions, have no source to run here.
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        raise _Refused(f"No module named {name}", 1)
    code = spec.loader.get_code(name)
    assert code is not None
    main.__file__ = spec.origin
    main.__dict__["__cached__"] = spec.cached
    main.__loader__, main.__package__, main.__spec__ = spec.loader, spec.parent, spec
    return code


def _exit_code(stop: SystemExit) -> int:
    """Return the exit code of a SystemExit; print its message if it has one."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        # Exit codes have eight bits.
        return stop.code & 0xFF
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the leading frames of this file."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def first_import_directory(command: Script | Module) -> str:
    """Return the directory that Python searches first for modules: that of the script, or the working directory."""
    if isinstance(command, Script):
        return os.path.dirname(os.path.realpath(command.argv[0]))
    return os.getcwd()
