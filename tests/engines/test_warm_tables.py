"""Trials that are forks of the warm process find the tables for event files already computed."""

from __future__ import annotations

from pathlib import Path

from determined.engines.base import Exited, Job, Line
from determined.engines.command import Script
from determined.engines.local import LocalEngine

PROGRAM = """
import json
from determined.tensorboard import events
print(json.dumps(events._contribution_table.cache_info().currsize), flush=True)
"""


def test_a_copy_has_the_tables(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    with LocalEngine(1) as engine:
        engine.start(Job("job", Script(("job.py",)), {}, tmp_path, 1))
        events = list(engine.events(60.0))
        while not any(isinstance(event, Exited) for event in events):
            events += engine.events(60.0)
    assert [event.text for event in events if isinstance(event, Line)] == ["3"]
