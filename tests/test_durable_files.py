"""Files appear complete or not at all, and are flushed to disk before they get their name."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from determined.durable_files import publish, write_atomically


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record which files are flushed, and when one gets its final name."""
    found: list[str] = []
    fsync = os.fsync

    def watch_fsync(descriptor: int) -> None:
        found.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def watching(call: Any) -> Any:
        def watched(source: Any, target: Any) -> None:
            call(source, target)
            found.append(f"NAME {os.path.basename(target)}")

        return watched

    monkeypatch.setattr(os, "fsync", watch_fsync)
    for name in ("rename", "replace", "link"):
        monkeypatch.setattr(os, name, watching(getattr(os, name)))
    return found


def test_a_written_file_is_private_and_flushed_before_it_replaces_the_old_one(
    tmp_path: Path, events: list[str]
) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert events == ["record.new", "NAME record.json"]
    assert os.listdir(tmp_path) == ["record.json"]


def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"


def test_a_directory_is_published_after_its_files(tmp_path: Path, events: list[str]) -> None:
    draft = tmp_path / "draft"
    draft.mkdir()
    (draft / "table").write_text("x")
    publish(draft, tmp_path / "export")
    assert events == ["table", "draft", "NAME export", tmp_path.name]
    assert os.listdir(tmp_path) == ["export"]


def test_a_file_is_published_without_replacing_another_one(tmp_path: Path, events: list[str]) -> None:
    draft, target = tmp_path / "draft", tmp_path / "backup"
    draft.write_text("x")
    publish(draft, target)
    assert events == ["draft", "NAME backup", tmp_path.name]
    assert os.listdir(tmp_path) == ["backup"]
    draft.write_text("y")
    with pytest.raises(FileExistsError):
        publish(draft, target)
    assert target.read_text() == "x"


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise PermissionError("hard links are not supported")

    monkeypatch.setattr(os, "link", refuse)
    draft, target = tmp_path / "draft", tmp_path / "backup"
    draft.write_text("x")
    publish(draft, target)
    assert target.read_text() == "x"
    assert os.listdir(tmp_path) == ["backup"]
