"""The life of a job's main process: a copy of the warm process that behaves like a fresh interpreter.

What a fresh interpreter would do otherwise is done here: a session, signals, environment, paths, random numbers, a
`__main__` of its own; and at the end threads, exit functions and buffers. Where that cannot be done after the fact, as
with variables that are read when Python or torch starts, the process becomes a fresh interpreter.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import ctypes
import errno
import faulthandler
import importlib.machinery
import importlib.util
import io
import multiprocessing
import multiprocessing.process
import os
import signal
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import NoReturn

from determined.engines import libraries
from determined.engines.command import Module, Program, Script, as_argv

# Read when the interpreter, its memory or a library starts: setting them later has no effect.
_READ_AT_START = (
    "LANG",
    "LC_",
    "NPY_",
    "TQDM_",
    "PYTHON",
    "LD_",
    "GLIBC_",
    "MALLOC_",
    "OMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "TORCH",
    "PYTORCH_",
    "ATEN_",
)
_SET_LATER = ("PYTHONUNBUFFERED", "PYTHONPATH", "OMP_NUM_THREADS")

_FIRST_TO_GO = "500"  # when memory is short, a job shall be ended, and not the runner

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Order:
    """What to run, and where its output goes."""

    command: Script | Module | Program
    environment: dict[str, str]
    directory: str
    output: tuple[int, int]


@dataclass(frozen=True)
class Warmth:
    """What a copy must know about the process that it comes from."""

    pid: int
    environment: dict[str, str]
    path: list[str]  # where modules are found, without what the environment adds


class _Refused(Exception):
    """There is nothing to run; the interpreter would say so and leave."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def live(order: Order, warmth: Warmth) -> NoReturn:
    """Run the job to its end."""
    code = 1
    try:
        _separate(order, warmth)
        os.chdir(order.directory)
        command = order.command
        if isinstance(command, Program) or needs_fresh_interpreter(command, order.environment, warmth):
            _become(as_argv(command), order.environment)
        _refresh(order.environment, warmth)
        code = _run(command)
    except BaseException:  # noqa: BLE001  (of ours, not of the job: shown, and the process ends)
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def collect_orphans() -> None:
    """Processes below this one that lose their parent become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_ends(number: int) -> None:
    """From now on, or never again for 0: where the kernel does such a thing."""
    _prctl(_PR_SET_PDEATHSIG, number)


def needs_fresh_interpreter(command: Script | Module, environment: Mapping[str, str], warmth: Warmth) -> bool:
    """Whether variables that are read at the start differ, CUDA is not fresh, or own modules hide loaded ones."""
    for name in environment.keys() | warmth.environment.keys():
        differs = environment.get(name) != warmth.environment.get(name)
        if differs and name.startswith(_READ_AT_START) and name not in _SET_LATER:
            return True
    if libraries.cuda_is_lost():
        return True
    return any(_hides_loaded(directory) for directory in [_first_place(command), *_places(environment)])


def _separate(order: Order, warmth: Warmth) -> None:
    os.setsid()
    signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != warmth.pid:  # it died before it could be told
        os._exit(1)
    collect_orphans()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(_FIRST_TO_GO)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for file, target in zip(order.output, (1, 2), strict=True):
        os.dup2(file, target)
        os.close(file)


def _become(argv: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Turn into another program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a program that shows no stacks shall not die of being asked
    try:
        os.execvpe(argv[0], argv, {"PYTHONUNBUFFERED": "1", **environment})
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127 if error.errno == errno.ENOENT else 126)


def _refresh(environment: dict[str, str], warmth: Warmth) -> None:
    """Forget what belongs to the warm process, as if this one had just started."""
    _replace_environment(environment)
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    sys.stdout = sys.__stdout__ = _text_stream(1, "<stdout>", "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text_stream(2, "<stderr>", "backslashreplace")  # type: ignore[misc]
    sys.path[:] = [*_places(environment), *warmth.path]
    tempfile.tempdir = None
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    multiprocessing.current_process().authkey = os.urandom(32)
    warnings.onceregistry.clear()  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        pass  # what was shown once may be shown again
    libraries.refresh(environment)


def _replace_environment(environment: dict[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in environment.items() if os.environ.get(name) != value})


def _text_stream(file: int, name: str, errors: str) -> io.TextIOWrapper:
    """A stream whose lines do not wait: somebody may be watching, and the process may die."""
    raw = io.FileIO(file, "w", closefd=False)
    raw.name = name
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=True)


def _run(command: Script | Module) -> int:
    """Run the program, then all that an interpreter does before it ends; the exit code."""
    try:
        code, main = _load(command)
        exec(code, main.__dict__)
        status = 0
    except SystemExit as stop:
        status = _exit_code(stop)
    except _Refused as refusal:
        sys.stderr.write(f"{sys.executable}: {refusal}\n")
        status = refusal.code
    except BaseException as error:  # noqa: BLE001  (shown by the hook, as by any interpreter)
        trace = _without_ours(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # a program may close or replace them
            status = status or 120
    return status


def _load(command: Script | Module) -> tuple[CodeType, types.ModuleType]:
    """The code of the program, and the `__main__` that it runs in."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, _first_place(command))
    if isinstance(command, Script):
        sys.argv = list(command.argv)
        code = _load_script(main, command.argv[0])
    else:
        sys.argv = ["-m", *command.argv[1:]]
        code = _load_module(main, command.argv[0])
        sys.argv[0] = main.__file__ or ""
    sys.orig_argv = as_argv(command)
    return code, main


def _load_script(main: types.ModuleType, path: str) -> CodeType:
    full = os.path.abspath(path)
    main.__file__ = full
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", full)
    try:
        with open(full, "rb") as file:
            source = file.read()
    except OSError as error:
        raise _Refused(f"can't open file {full!r}: [Errno {error.errno}] {error.strerror}", 2) from None
    return compile(source, full, "exec", dont_inherit=True)


def _load_module(main: types.ModuleType, name: str) -> CodeType:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise _Refused(f"Error while finding module specification for {name!r} ({error})", 1) from None
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        raise _Refused(f"No module named {name}", 1)
    code = spec.loader.get_code(name)
    assert code is not None
    main.__file__ = spec.origin
    main.__dict__["__cached__"] = spec.cached
    main.__loader__, main.__package__, main.__spec__ = spec.loader, spec.parent, spec
    return code


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _first_place(command: Script | Module) -> str:
    """Where Python looks for modules first: beside the script, or here."""
    if isinstance(command, Script):
        return os.path.dirname(os.path.realpath(command.argv[0]))
    return os.getcwd()


def _places(environment: Mapping[str, str]) -> list[str]:
    return [os.path.abspath(place) for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]


def _hides_loaded(directory: str) -> bool:
    """Whether `import` would find modules here, by names under which others are loaded already."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return False
    for entry in entries:
        name, _, ending = entry.name.partition(".")
        module = sys.modules.get(name)
        if module is None or name == "__main__":
            continue
        # A folder that is no package hides nothing.
        if not ending and not os.path.exists(os.path.join(entry.path, "__init__.py")):
            continue
        origin = getattr(module, "__file__", None) or ""
        if (not ending or ending.endswith(("py", "pyc", "so"))) and not origin.startswith(entry.path):
            return True
    return False


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)
