"""A `NodeSetup` for tests of the engine: jobs run in the directory that they name, which all nodes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from determined.engines.base import Interpreter, Job
from determined.errors import EngineError


class KeepDirectory:
    """Changes nothing. `data` may name nodes (by their data directory) that are refused."""

    def __init__(self, data: Mapping[str, Any], root: Path, code: bytes, environment: Mapping[str, str]) -> None:
        self._data, self._code, self._environment = data, code, environment

    def prepare(self, stopped: Callable[[], bool]) -> Interpreter | None:
        assert self._code == b"code"
        if self._environment["XDG_DATA_HOME"] in self._data.get("refused", ()):
            raise EngineError("it does not please this test")
        return None

    def place(self, job: Job) -> Job:
        return job

    def output(self) -> list[tuple[float, str]]:
        return []
