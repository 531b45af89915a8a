"""The actor of a node without Ray: what it says when the node cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from determined.engines.base import Interpreter
from determined.engines.ray.node.actor import NodeActor
from determined.errors import StartupHookError
from tests.ray.setup import KeepDirectory

SETTINGS: dict[str, Any] = {
    "experiment": "experiment",
    "setup": "tests.ray.setup:KeepDirectory",
    "data": {},
    "silence_seconds": 60,
    "node": "id",
    "name": "first",
    "address": "127.0.0.1",
    "slots": 1,
}


class FailingHook(KeepDirectory):
    def prepare(self, stopped: Callable[[], bool]) -> Interpreter | None:
        raise StartupHookError("the hook failed: no disk", "\nIts last lines:\n    no disk")


@contextmanager
def running(**changed: Any) -> Iterator[NodeActor]:
    node = NodeActor({**SETTINGS, **changed}, b"code")
    try:
        yield node
    finally:
        node.finish()


def said(node: NodeActor) -> list[list[Any]]:
    return [event for _, event in node.exchange([], 0)]


@pytest.mark.parametrize("directory", ["relative", "~nobody-of-this-name/data", "file/data"])
def test_a_data_directory_that_cannot_be_used(directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DET_DATA_DIR", str(tmp_path / directory) if "file" in directory else directory)
    with running() as node:
        ((kind, reason, *details),) = said(node)
    assert kind == "refused"
    assert reason.startswith("its data directory cannot be used: ")
    assert directory in reason
    assert "; DET_DATA_DIR is" in reason
    assert details == []


def test_a_refusal_is_one_line_and_its_details(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_DATA_DIR", str(tmp_path / "data"))
    with running(setup="tests.engines.ray.test_actor:FailingHook") as node:
        assert said(node) == [["refused", "the hook failed: no disk", "Its last lines:", "    no disk"]]
