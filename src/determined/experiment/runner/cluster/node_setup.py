"""`ExperimentNodeSetup`: prepares another machine to run the trials of an experiment, in the actor of that node."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from determined.config.registry.storage_types import storage_type
from determined.config.stored import StoredConfig
from determined.engines.base import Interpreter, Job
from determined.engines.job_environment import without_run_variables
from determined.engines.ray.versions import versions
from determined.engines.supervised_command import supervised, terminate
from determined.errors import EngineError
from determined.experiment.code import startup_hook
from determined.experiment.code.directories import make_work_dir
from determined.experiment.code.packing import unpack_code
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.cluster.access_check import storage_problem

_ACCESS_CHECK = "determined.experiment.runner.cluster.access_check"
# Longer than the retries of an object store that does not answer.
_SECONDS_FOR_ACCESS = 120.0
_SECONDS_BETWEEN_POLLS = 0.1  # how long the end of the actor may go unnoticed


class ExperimentNodeSetup:
    """The `NodeSetup` of experiments: the files of one experiment on a node.

    They are below `root`, which belongs to this node and experiment only. `environment` is that of the node, without
    what Ray sets for itself.
    """

    def __init__(self, data: Mapping[str, Any], root: Path, code: bytes, environment: Mapping[str, str]) -> None:
        self._data, self._code, self._environment = data, code, environment
        self._files = ExperimentFiles(root)
        self._config = StoredConfig(data["config"])
        self._variables: dict[str, str] = data["variables"]  # the user's, as they are on the runner's machine
        self._hook: startup_hook.PreparedHook | None = None

    def prepare(self, stopped: Callable[[], bool]) -> Interpreter | None:
        """Compare versions, unpack the code, run the startup hook, and look for the runner's storage and store."""
        self._check_versions()
        kind = storage_type(self._config.checkpoint_storage.type)
        is_mounted = kind is not None and kind.is_mounted
        if is_mounted:
            # Before the hook, which may take minutes. It cannot change what a directory contains.
            _refuse(storage_problem(self._config.checkpoint_storage.plain, self._data["storage_mark"]))
        self._files.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hashlib.sha256(self._code).hexdigest() != self._data["code_hash"]:
            raise EngineError("the code of the experiment was damaged on its way to this node")
        unpack_code(self._code, self._files.code)
        self._code = b""
        self._hook = startup_hook.prepare(
            self._files,
            self._config,
            stopped=stopped,
            environment=self._environment,
            variables=self._variables,
        )
        interpreter = None if self._hook is None else self._hook.interpreter()
        if not is_mounted or self._data["store"] is not None:
            storage = None if is_mounted else self._config.checkpoint_storage.plain
            _refuse(self._problem_in_a_trial(interpreter or Interpreter(), storage, stopped))
        return interpreter

    def place(self, job: Job) -> Job:
        """Return the job in its working directory on this node; `job.directory` is the id of its trial."""
        hook, trial = self._hook, int(job.directory.name)
        code = self._files.code if hook is None else hook.work
        directory = make_work_dir(code, self._files.work_dir(trial))
        if hook is None:
            return replace(job, directory=directory)
        # As on a single machine: the hook changes the user's variables, and the library's own win over both.
        ours = {
            name: value
            for name, value in job.environment.items()
            if name.startswith("DET_") and self._variables.get(name) != value
        }
        added = {name: value for name, value in job.environment.items() if name not in self._variables}
        users = hook.variables(self._config, directory, self._variables)
        return replace(job, directory=hook.inside(directory), environment={**added, **users, **ours})

    def output(self) -> list[tuple[float, str]]:
        """Return times and lines of the startup hook's output, which belong to the log of the first job; only once."""
        if self._hook is None:
            return []
        lines = self._hook.output()
        self._hook = self._hook.mark_logged()
        return lines

    def _check_versions(self) -> None:
        """Raise EngineError if Python, torch or this library differ from those on the runner's machine."""
        here, there = versions(), self._data["versions"]
        different = [f"{name} {here[name]} instead of {there[name]}" for name in here if here[name] != there[name]]
        if different:
            raise EngineError(f"it has {', '.join(different)}; install the versions of the runner's machine there")

    def _problem_in_a_trial(
        self, interpreter: Interpreter, storage: Mapping[str, Any] | None, stopped: Callable[[], bool]
    ) -> str | None:
        """Return why trials on this node cannot use the store or this storage.

        Asked in a process with their interpreter and variables, which may contain the credentials.
        """
        variables = self._variables
        if self._hook is not None:
            variables = self._hook.variables(self._config, self._hook.work, variables)
        environment = {**interpreter.environment(without_run_variables(self._environment)), **variables}
        # Files without names: what is asked contains passwords, which must not appear in the list of processes.
        with tempfile.TemporaryFile("w+") as exchanged, tempfile.TemporaryFile("w+", errors="replace") as output:
            json.dump({"storage": storage, "mark": self._data["storage_mark"], "store": self._data["store"]}, exchanged)
            exchanged.seek(0)
            file = exchanged.fileno()
            command = [interpreter.python, "-P", "-m", _ACCESS_CHECK, str(file)]
            process = supervised(command, environment, Path("/"), output=output.fileno(), keep_open=[file])
            try:
                if not _has_ended(process, stopped):
                    return f"its checkpoint storage or store has not answered for {_SECONDS_FOR_ACCESS:.0f} seconds"
            finally:
                terminate(process)
            if process.returncode != 0:
                output.seek(0)
                said = (output.read().strip().splitlines() or [f"exit code {process.returncode}"])[-1]
                return f"it cannot check the checkpoint storage and the store: {said}"
            exchanged.seek(0)
            problem: str | None = json.load(exchanged)
            return problem


def _has_ended(process: subprocess.Popen[bytes], stopped: Callable[[], bool]) -> bool:
    """Wait for a process; return False if that takes too long. Raise EngineError if the node is no longer needed."""
    deadline = time.monotonic() + _SECONDS_FOR_ACCESS
    while process.poll() is None:
        if stopped():
            raise EngineError("the node was no longer needed before it was prepared")
        if time.monotonic() > deadline:
            return False
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_BETWEEN_POLLS)
    return True


def _refuse(problem: str | None) -> None:
    """Raise EngineError with a problem, if there is one."""
    if problem is not None:
        raise EngineError(problem)
