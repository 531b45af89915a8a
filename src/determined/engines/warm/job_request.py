"""The description of a job as the engine sends it to a fork of the warm process."""

from __future__ import annotations

import json
from dataclasses import dataclass

from determined.engines.command import Module, Program, Script

_KINDS: dict[str, type[Script | Module | Program]] = {"script": Script, "module": Module, "program": Program}


@dataclass(frozen=True)
class JobRequest:
    """The command of a job, its environment and its working directory."""

    command: Script | Module | Program
    environment: dict[str, str]
    directory: str

    def encode(self) -> bytes:
        """Return the request as JSON bytes for `decode`."""
        kind = type(self.command).__name__.lower()
        plain = {"kind": kind, "argv": self.command.argv, "environment": self.environment, "directory": self.directory}
        return json.dumps(plain).encode()

    @classmethod
    def decode(cls, data: bytes) -> JobRequest:
        """Return the request that `encode` turned into these bytes."""
        plain = json.loads(data)
        command = _KINDS[plain["kind"]](tuple(plain["argv"]))
        return cls(command, plain["environment"], plain["directory"])
