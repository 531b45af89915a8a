"""The simulation of many nodes: a real runner serves simulated trials to their end."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.cases.many_nodes import run


def test_a_small_simulation(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package ray is looked for and not imported; here it need not be installed.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = run(nodes=10, trials=20, seconds=1.5)
    assert (found["state"], found["completed"]) == ("COMPLETED", 20)
    assert found["answers"] > 0
    assert found["cpu"] > 0
