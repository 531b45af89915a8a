"""Jobs and events as plain data, the form in which they travel between the runner, the bridge and the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from determined.engines.base import Event, Exited, Job, Line, Part, Placed, WakeupRequested
from determined.engines.command import Command, Harness, Module, Program, Script, Shell
from determined.engines.ray.placement import Share

_COMMANDS: dict[str, type[Script] | type[Module] | type[Program]] = {
    "script": Script,
    "module": Module,
    "program": Program,
}


def characters(event: Sequence[Any]) -> int:
    """Return the number of characters in the texts of an encoded event, almost all of the memory that it needs."""
    return sum(len(field) for field in event if isinstance(field, str))


def encode_job(job: Job) -> dict[str, Any]:
    """Return a job as plain data, without its part, which differs from node to node."""
    return {
        "key": job.key,
        "command": _encode_command(job.command),
        "environment": job.environment,
        "directory": str(job.directory),
        "slots": job.slots,
    }


def encode_parts(shares: Sequence[Share], addresses: Sequence[str]) -> list[dict[str, Any]]:
    """Return the parts of a job on the nodes of a placement group, which have these addresses."""
    slots = [share.slots for share in shares]
    return [
        {
            "node": share.node,
            "actor": share.actor,
            "rank": rank,
            "addresses": list(addresses),
            "slots": slots,
            "gpus": list(share.gpus),
        }
        for rank, share in enumerate(shares)
    ]


def decode_job(data: dict[str, Any], part: dict[str, Any]) -> Job:
    """Return the job that was encoded, with the part of a node."""
    return Job(
        data["key"],
        _decode_command(data["command"]),
        dict(data["environment"]),
        Path(data["directory"]),
        data["slots"],
        Part(part["rank"], tuple(part["addresses"]), tuple(part["slots"]), part["port"], tuple(part["gpus"])),
    )


def encode_event(event: Event) -> list[Any]:
    """Return an event of an engine as a list that begins with its kind."""
    if isinstance(event, Line):
        return ["line", event.key, event.rank, event.stream, event.level, event.text, event.written, event.finished]
    if isinstance(event, WakeupRequested):
        return ["wakeup", event.key]
    if isinstance(event, Placed):
        return ["placed", event.key, *event.directories]
    return ["exited", event.key, event.code, event.signal, event.out_of_memory, event.cpu_seconds, event.lost]


def decode_event(data: list[Any]) -> Event:
    """Return the event that was encoded."""
    kind, *fields = data
    if kind == "line":
        return Line(*fields)
    if kind == "placed":
        return Placed(fields[0], tuple(fields[1:]))
    return WakeupRequested(*fields) if kind == "wakeup" else Exited(*fields)


def _encode_command(command: Command) -> list[Any]:
    if isinstance(command, Harness):
        return ["harness", command.trial]
    if isinstance(command, Shell):
        return ["shell", command.text]
    name = next(name for name, kind in _COMMANDS.items() if isinstance(command, kind))
    return [name, list(command.argv)]


def _decode_command(data: list[Any]) -> Command:
    kind, value = data
    if kind == "harness":
        return Harness(value)
    return Shell(value) if kind == "shell" else _COMMANDS[kind](tuple(value))
