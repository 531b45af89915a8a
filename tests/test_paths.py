"""Where data are stored."""

from __future__ import annotations

import re
import stat
import uuid
from pathlib import Path

import pytest

from determined import paths


def test_the_data_directory_follows_the_environment_at_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "one"))
    assert paths.data_dir() == tmp_path / "one" / "determined"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "two"))
    assert paths.data_dir() == tmp_path / "two" / "determined"
    assert stat.S_IMODE(paths.data_dir().stat().st_mode) == 0o700


def test_without_the_variable_it_lies_below_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert paths.data_dir() == tmp_path / ".local" / "share" / "determined"


def test_a_relative_variable_is_ignored_as_the_standard_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative/place")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.data_dir().is_relative_to(tmp_path)


def test_run_directories_are_fresh_and_never_named_like_a_checkpoint() -> None:
    first, second = paths.new_run_dir(), paths.new_run_dir()
    assert first != second
    assert first.parent == paths.data_dir() / "runs"
    assert re.fullmatch(r"\d{8}T\d{6}Z-\d+-[0-9a-f]{6}", first.name)
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    with pytest.raises(ValueError):
        uuid.UUID(first.name)


def test_the_store_is_a_file_in_the_data_directory_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = paths.data_dir() / "store.sqlite"
    assert paths.store_place() == str(own)
    assert paths.store_files() == [own, Path(f"{own}-wal"), Path(f"{own}-shm")]
    monkeypatch.setenv("DET_STORE", "~/mine.db")
    assert paths.store_place() == "~/mine.db"
    assert paths.store_files()[0] == Path.home() / "mine.db"
    monkeypatch.setenv("DET_STORE", "postgresql://host/db")
    assert paths.store_place() == "postgresql://host/db"
    assert paths.store_files() == []
