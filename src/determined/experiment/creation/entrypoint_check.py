"""Check before an experiment is created that its entrypoint can be run."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
from pathlib import Path

from determined.config.stored import StoredConfig
from determined.engines.base import Engine, Exited, Interpreter, Job, Line
from determined.engines.command import Command, Harness, Module, Script
from determined.errors import InvalidExperimentException
from determined.experiment.code import startup_hook
from determined.experiment.code.startup_hook import PreparedHook
from determined.experiment.runner.trials.environment import user_variables

_CHECK = "determined.exec.check_entrypoint"
_EXPLAINED = 3  # exit code of the check if its last line explains the failure
# Importing a large framework from a cold disk can take minutes.
_SECONDS = 300.0
# A crash may print pages; its last lines name the error.
_LINES = 15


def check(command: Command, code: Path, config: StoredConfig, engine: Engine | None, hook: PreparedHook | None) -> None:
    """Check that a trial class can be imported, or that a script exists and is valid Python; raise otherwise.

    The import runs in the warm engine if there is one. With a startup hook it runs in the hook's directory, with its
    packages and variables; the engine must already use its interpreter.
    """
    variables, interpreter = user_variables(config), Interpreter()
    if hook is not None:
        variables, interpreter = hook.variables(config, hook.work), hook.interpreter()
        code = hook.inside(hook.work)
    if isinstance(command, Harness):
        _check_class(command.trial, code, variables, engine, interpreter)
    elif isinstance(command, Script):
        _check_script(Path(command.argv[0]), code)


def check_files(command: Command, code: Path, config: StoredConfig) -> None:
    """Check that the entrypoint exists and is valid Python, without running anything; raise otherwise.

    For an experiment on a cluster: its nodes may have packages, GPUs and files that this machine has not.
    """
    # A startup hook, which runs on the nodes, may write or install what is missing here.
    is_complete = not (startup_hook.is_wanted(config) and startup_hook.has_hook(code))
    if isinstance(command, Script):
        script = Path(command.argv[0])
        if is_complete or (code / script).is_file():
            _check_script(script, code)
    elif isinstance(command, Harness):
        name = command.trial.partition(":")[0]
        path = Path(*name.split("."))
        found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if (code / file).is_file()]
        if found:
            _check_syntax(found[0], code)
        elif is_complete and not _may_be_installed(name.partition(".")[0], code, user_variables(config)):
            raise InvalidExperimentException(
                f"entrypoint: there is no {path.with_suffix('.py')} in the model directory, and no package of this name"
            )


def _may_be_installed(module: str, code: Path, variables: dict[str, str]) -> bool:
    """Return whether a module that has no file of its own in the model directory may be found on a node."""
    if (code / f"{module}.py").exists():
        return False
    # Its own modules may be compiled, and PYTHONPATH is one of the nodes.
    return (
        bool(list(code.glob(f"{module}.*.so")) or list(code.glob(f"{module}/**/*.so")))
        or "PYTHONPATH" in variables
        or (not (code / module).exists() and importlib.util.find_spec(module) is not None)
    )


def _check_script(script: Path, code: Path) -> None:
    """Raise InvalidExperimentException if a script is missing or has a syntax error."""
    if not (code / script).is_file():
        raise InvalidExperimentException(f"entrypoint: there is no {script} in the model directory")
    _check_syntax(script, code)


def _check_syntax(script: Path, code: Path) -> None:
    """Raise InvalidExperimentException if a file is not valid Python."""
    try:
        # Parsed and not imported: a script trains when it is imported.
        ast.parse((code / script).read_bytes(), filename=str(script))
    except (SyntaxError, ValueError) as error:
        raise InvalidExperimentException(f"entrypoint: {script} is not Python that can be run: {error}") from None


def _check_class(
    trial: str, code: Path, variables: dict[str, str], engine: Engine | None, interpreter: Interpreter
) -> None:
    """Raise InvalidExperimentException with the output of the import check if a trial class cannot be imported."""
    module = trial.partition(":")[0].partition(".")[0]
    # For the hint only; the import itself decides.
    here = any((code / name).exists() for name in (f"{module}.py", module)) or list(code.glob(f"{module}.*.so"))
    if engine is None:
        output, returned = _in_a_fresh_process(trial, code, variables, interpreter)
    else:
        output, returned = _by_engine(engine, trial, code, variables)
    if returned == 0:
        return
    last = next((line for line in reversed(output) if line.strip()), f"exit code {returned}")
    hint = "" if here else f" (there is no {module}.py in the model directory)"
    message = f"entrypoint: {trial} cannot be imported: {last}{hint}"
    if returned != _EXPLAINED:  # the process crashed: show its output
        message += "".join(f"\n    {line}" for line in output[-_LINES:])
    raise InvalidExperimentException(message)


def _in_a_fresh_process(
    trial: str, code: Path, variables: dict[str, str], interpreter: Interpreter
) -> tuple[list[str], int]:
    """Run the import check in a new process; return its output and exit code."""
    # A separate process, because importing the user's code can crash, change global state or never end.
    done = subprocess.run(
        [interpreter.python, "-m", _CHECK, trial],
        cwd=code,
        env={**interpreter.environment(os.environ), **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_SECONDS,
    )
    return done.stdout.splitlines(), done.returncode


def _by_engine(engine: Engine, trial: str, code: Path, variables: dict[str, str]) -> tuple[list[str], int]:
    """Run the import check as a job of the engine; return its output and exit code."""
    output: list[str] = []
    # One slot, although the trial may need more: the check only imports.
    engine.start(Job("check", Module((_CHECK, trial)), variables, code, slots=1))
    while True:
        for event in engine.events(1.0):
            if isinstance(event, Line):
                output.append(event.text)
            elif isinstance(event, Exited):
                return output, event.code
