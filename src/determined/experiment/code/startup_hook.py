"""The `startup-hook.sh` of an experiment: run once, in a virtual environment of the experiment, for all its trials.

Everything is below `startup-hook/` in the experiment's directory and is deleted with it. The hook works in a copy of
the code, from which the working directories of trials are copied. Its exported variables are stored in `record.json`,
which is written last: an interrupted hook has no record and is run again from the start. It is also run again when its
content or the interpreter changes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from determined import paths
from determined.config.stored import StoredConfig
from determined.durable_files import write_atomically
from determined.engines.base import Interpreter
from determined.engines.job_environment import without_run_variables
from determined.errors import StartupHookError
from determined.experiment.code.directories import HOOK, copy_tree
from determined.experiment.code.hook_environment import HookEnvironment, parent_packages
from determined.experiment.code.hook_script import HookResult, HookStopped, log_lines, run_hook
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.trials.environment import user_variables
from determined.file_locks import try_lock
from determined.switches import is_on

logger = logging.getLogger("determined.experiment")

_HOME = "startup-hook"
# A lock sends no notification. Short enough that a user does not notice it.
_SECONDS_BETWEEN_TRIES = 0.2
_OURS = Path(paths.__file__).with_name("__init__.py")  # of the package `determined` that runs here
_SIGNS_OF_CONSTRAINTS = ("constraint", "ResolutionImpossible")  # messages of pip, with and without --quiet
_FIND_DETERMINED = (
    "import sys, importlib.util\n"
    "sys.path[:] = [place for place in sys.path if place]\n"
    "found = importlib.util.find_spec('determined')\n"
    "print(found.origin if found else '')\n"
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Record:
    """The result of a successful hook: its fingerprint, exported variables and final directory."""

    fingerprint: str
    variables: dict[str, str]
    unset: list[str]
    directory: str
    ran: str  # unique name of this run of the hook
    logged: bool = False  # whether its output is in the log of a trial


@dataclass(frozen=True)
class PreparedHook:
    """A hook that has run successfully."""

    files: ExperimentFiles
    record: _Record
    outer: Mapping[str, str] = field(default_factory=lambda: os.environ)  # the environment in which it was started

    @property
    def work(self) -> Path:
        """The directory in which the hook ran.

        Trials work in copies of it, unless they work in the user's own directory.
        """
        return self.files.place or _home(self.files) / "work"

    def interpreter(self) -> Interpreter:
        """Return the interpreter for trials: that of the virtual environment, with the hook's exported variables."""
        environment = HookEnvironment(_home(self.files))
        variables = {**environment.variables(without_run_variables(self.outer)), **self.record.variables}
        # A variable that the hook exported is set even if the environment would remove it.
        unset = (environment.unset() | set(self.record.unset)) - self.record.variables.keys()
        kept = {name: value for name, value in variables.items() if name not in unset}
        return Interpreter(str(environment.python), kept, unset, self.record.ran)

    def variables(
        self, config: StoredConfig, directory: Path, given: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the variables of a trial: those of its configuration, changed by the hook.

        `given` are those of its configuration as another machine knows them; by default this machine's are read. Paths
        that the hook derived from its working directory (`export PYTHONPATH=$PWD/src`) are translated to the trial's.
        """
        exported = {
            name: value.replace(str(self.work), str(directory)) for name, value in self.record.variables.items()
        }
        given = user_variables(config) if given is None else given
        return {name: value for name, value in given.items() if name not in self.record.unset} | exported

    def inside(self, directory: Path) -> Path:
        """Return the directory in which a trial starts: the hook may have called `cd`."""
        return directory / self.record.directory  # an absolute path replaces the directory

    def output(self) -> list[tuple[float, str]]:
        """Return times and lines of the hook's output, unless the log of a trial already has them."""
        return [] if self.record.logged else list(log_lines(_log(self.files)))

    def mark_logged(self) -> PreparedHook:
        """Record that the output is in the log of a trial, and return the updated hook."""
        marked = replace(self.record, logged=True)
        _write_record(self.files, marked)
        return replace(self, record=marked)


def prepare(
    files: ExperimentFiles,
    config: StoredConfig,
    *,
    say: Say = logger.info,
    stopped: Callable[[], bool] = lambda: False,
    environment: Mapping[str, str] = os.environ,
    variables: Mapping[str, str] | None = None,
) -> PreparedHook | None:
    """Run the startup hook unless it has run before, and return its result; None if there is none, or it is off.

    The hook gets `environment` and the user's `variables`, by default those that the configuration sets. `say` is
    called with lines for the user. Raises StartupHookError if the hook fails, and HookStopped once `stopped` returns
    True.
    """
    hook = (files.place or files.code) / HOOK
    if not _is_enabled(config) or not has_hook(hook.parent):
        return None
    home = _home(files)
    home.mkdir(mode=0o700, exist_ok=True)
    # Two commands, or a command and the daemon, may start the same experiment; only one runs the hook.
    with _locked(home / "lock", say, stopped):
        fingerprint = _fingerprint(hook)
        record = _read_record(files)
        # The interpreter of the environment may have been deleted or upgraded away.
        usable = record is not None and os.access(HookEnvironment(home).python, os.X_OK)
        if record is None or not usable or record.fingerprint != fingerprint:
            if record is not None:
                say(f"{HOOK} is run again: its content or the interpreter has changed")
            given = user_variables(config) if variables is None else variables
            record = _run(files, environment, given, fingerprint, say, stopped)
        return PreparedHook(files, record, environment)


def is_wanted(config: StoredConfig) -> bool:
    """Return whether a new experiment with this configuration runs its hook: DET_STARTUP_HOOK may disable it."""
    return _is_enabled(config) and is_on(os.environ, "DET_STARTUP_HOOK")


def has_hook(directory: Path) -> bool:
    """Return whether a model directory has a startup hook."""
    return (directory / HOOK).is_file()


def environment_shown() -> str:
    """Return the location of the virtual environment of an experiment that does not exist yet, for a preview."""
    return str(HookEnvironment(paths.experiments_dir() / "<key>" / _HOME).root)


def announcement(environment: Path | str) -> str:
    """Return the message that is shown before a hook runs."""
    return (
        f"{HOOK} runs once for this experiment, in the virtual environment {environment}: what it installs with pip is "
        "not installed in yours. It is not a sandbox; --no-startup-hook skips it"
    )


def _is_enabled(config: StoredConfig) -> bool:
    """Return whether the configuration allows startup hooks."""
    return config.startup_hook  # true in experiments of earlier versions, which lack this field


def _run(
    files: ExperimentFiles,
    inherited: Mapping[str, str],
    variables: Mapping[str, str],
    fingerprint: str,
    say: Say,
    stopped: Callable[[], bool],
) -> _Record:
    """Create the virtual environment, run the hook in it and write the record."""
    home = _home(files)
    # Before anything changes: an interrupted run must not leave a record of the run before it.
    (home / "record.json").unlink(missing_ok=True)
    environment = HookEnvironment(home)
    say(announcement(environment.root))
    environment.build()
    work = files.place
    if work is None:
        work = home / "work"
        shutil.rmtree(work, ignore_errors=True)
        copy_tree(files.code, work)
    outer = {**without_run_variables(inherited), **variables}
    given = {name: value for name, value in outer.items() if name not in environment.unset()}
    # The environment wins over the user's variables, or pip would install elsewhere.
    given |= {**environment.variables(given), "PWD": str(work)}
    began = time.monotonic()
    result = run_hook(work, given, _log(files), stopped)
    _refuse_failure(result)
    if result.directory is None:
        say(f"{HOOK} replaced the trap for EXIT: what it exported is not known, and trials do not get it")
    directory = result.directory or str(work)
    # The working directory may be reached through a link, and `pwd -P` shows the real one.
    inside = os.path.relpath(directory, os.path.realpath(work))
    record = _Record(
        fingerprint,
        result.variables,
        sorted(result.unset),
        # Relative to the copy, because each trial works in a copy of its own.
        directory if inside.split(os.sep)[0] == os.pardir else inside,
        uuid.uuid4().hex,
    )
    # Before the record is written, so that such an environment is not used by a later start either.
    _refuse_another_determined(PreparedHook(files, record, inherited))
    _write_record(files, record)
    say(f"{HOOK} succeeded after {time.monotonic() - began:.0f} s")
    return record


def _refuse_failure(result: HookResult) -> None:
    """Raise StartupHookError with the last lines if the hook failed."""
    if result.code == 0:
        return
    shown = "".join(f"\n    {line}" for line in result.last_lines) or "\n    (it wrote nothing)"
    last = next((f": {line}" for line in reversed(result.last_lines) if line.strip()), "")
    hint = ""
    if any(sign in line for line in result.last_lines for sign in _SIGNS_OF_CONSTRAINTS):
        hint = (
            "\nPIP_CONSTRAINT keeps torch, numpy and the dependencies of determined at their present versions: remove "
            "their version numbers from the requirements, or unset PIP_CONSTRAINT in the hook"
        )
    raise StartupHookError(f"{HOOK} failed with exit code {result.code}{last}", f"\nIts last lines:{shown}{hint}")


def _refuse_another_determined(prepared: PreparedHook) -> None:
    """Raise StartupHookError if the hook has installed another package named `determined`."""
    interpreter = prepared.interpreter()
    done = subprocess.run(
        [interpreter.python, "-c", _FIND_DETERMINED],
        env=interpreter.environment(without_run_variables(prepared.outer)),
        # In a directory without modules that could be found instead.
        cwd="/",
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise StartupHookError(f"after {HOOK} the Python of the virtual environment does not work: {said}")
    found = done.stdout.strip()
    if os.path.realpath(found) != os.path.realpath(_OURS):
        raise StartupHookError(
            f"after {HOOK} `import determined` finds {found or 'nothing'} instead of {_OURS}: remove "
            "what installs another package named determined from the hook and its requirements"
        )


def _fingerprint(hook: Path) -> str:
    """Return a hash that changes with the content of the hook or the interpreter."""
    # Paths and versions: packages of another interpreter, even of the same version, may not work.
    about = [sys.executable, sys.version, sys.base_prefix, *parent_packages()]
    return hashlib.sha256(hook.read_bytes() + "\0".join(about).encode(errors="surrogateescape")).hexdigest()


@contextmanager
def _locked(path: Path, say: Say, stopped: Callable[[], bool]) -> Iterator[None]:
    """Hold a file lock for the block; the system releases it when this process ends for any reason."""
    waiting = False
    # Polled, so that a request to stop ends the wait.
    while (descriptor := try_lock(path)) is None:
        if not waiting:
            say(f"waiting for another process that runs {HOOK} of this experiment")
        waiting = True
        if stopped():
            raise HookStopped
        time.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        yield
    finally:
        os.close(descriptor)


def _home(files: ExperimentFiles) -> Path:
    """Return the directory of the hook's virtual environment, log and record."""
    return files.root / _HOME


def _log(files: ExperimentFiles) -> Path:
    """Return the file that contains the output of the hook."""
    return _home(files) / "output.log"


def _read_record(files: ExperimentFiles) -> _Record | None:
    """Return the record of the hook's last run, or None if the hook must run again."""
    try:
        return _Record(**json.loads((_home(files) / "record.json").read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):  # damaged: the hook runs again
        logger.warning("%s is damaged: %s is run again", _home(files) / "record.json", HOOK)
        return None


def _write_record(files: ExperimentFiles, record: _Record) -> None:
    """Write the record of the hook's run atomically: after a crash there is the old one or the new one."""
    write_atomically(_home(files) / "record.json", json.dumps(asdict(record)))
