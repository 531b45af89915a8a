"""How often the kernel has killed processes because memory ran out."""

from __future__ import annotations

from pathlib import Path

import pytest

from determined.engines import processes as memory


def test_the_counter_of_this_machine_can_be_read() -> None:
    assert memory.count_memory_kills() >= 0
    assert "oom_kill " in Path("/proc/vmstat").read_text()


def test_the_own_control_group_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\noom 7\noom_kill 4711\noom_group_kill 0\n")
    monkeypatch.setattr(memory, "_own_group", lambda: str(tmp_path))
    assert memory.count_memory_kills() == 4711
