"""The copy of a model directory in checkpoints contains programs, but no data and no secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from determined.user_code import copy as copying
from determined.user_code.copy import LEFT_OUT_DIRECTORIES, LEFT_OUT_NAMES, left_out

AT_TOP = ("/shared_fs/", "/runs/")
NAMES = [
    *("train.py", "old.pyc", "x.pyo", "pyc", ".env", "...", "a.b", "__pycache__", "x.egg-info", "egg-info", "runs"),
    *("shared_fs", "x.tfstate", "x.tfstate.backup", "tfstate", "x.tfvars", "a.PEM", "a.Key", "key", "a.p12", "a.pFx"),
    *("a.ppk", "a.jks", "a.JKS", "a.keystore", "a.kdbx", "id_rsa", "id_rsa.pub", "my_id_rsa", "id_dsa_2", "id_ecdsa"),
    *("id_ed25519-x", "aws_credentials.json", "credentials.json.txt", "credentials", "a\nb.pem", "ä.pem"),
]


def copied(source: Path, *leave_out: Path) -> set[str]:
    target = source.with_name("copy")
    copying.copy_code(source, target, list(leave_out))
    return {file.relative_to(target).as_posix() for file in target.rglob("*") if not file.is_dir()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    return directory


def test_rules(source: Path) -> None:
    for name in ("train.py", "package/data.json", ".env", "server.pem", "runs/events.out", "datasets/big.bin", "x.tmp"):
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    (source / "weights.bin").write_bytes(bytes(2_000_000))  # data is kept: the user put it into the model directory
    (source / ".detignore").write_text("datasets/\n!.env\n")
    (source / ".gitignore").write_text("*.tmp\n")
    assert copied(source) == {"train.py", "package/data.json", "weights.bin"}


def test_what_is_left_out_by_the_caller(source: Path) -> None:
    for name in ("train.py", "records.db", "checkpoints/1/state"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    assert copied(source, source / "records.db", source / "checkpoints") == {"train.py"}


def test_links_and_pipes(source: Path, tmp_path: Path) -> None:
    (source / "train.py").touch()
    (tmp_path / "secret.txt").touch()
    (source / "outside.txt").symlink_to(tmp_path / "secret.txt")
    (source / "outside").symlink_to(tmp_path)
    os.mkfifo(source / "fifo")
    assert copied(source) == {"train.py"}


def test_an_ignore_file_that_is_a_pipe(source: Path) -> None:
    (source / "train.py").touch()
    os.mkfifo(source / ".detignore")
    assert copied(source) == {"train.py"}


def test_too_much_is_skipped_and_named(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(copying, "MAX_BYTES", 1000)
    (source / "a.py").write_text("x")
    (source / "big.bin").write_bytes(b"x" * 2000)
    (source / "z.py").write_text("x")
    assert copied(source) == {"a.py", "z.py"}
    assert "big.bin" in caplog.text


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(NAMES) | st.text("abkepy_", min_size=1, max_size=4), max_size=3),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_built_in_rules_are_those_of_gitignore(around: list[str], name: str, is_directory: bool) -> None:
    """The same patterns in an ignore file exclude the same paths, if all directories around them are included."""
    as_in_a_file = GitIgnoreSpec.from_lines([*LEFT_OUT_NAMES, *(f"{one}/" for one in LEFT_OUT_DIRECTORIES), *AT_TOP])
    check = left_out(LEFT_OUT_NAMES, LEFT_OUT_DIRECTORIES)
    path = ""
    for directory in around:
        path = f"{path}{directory}/"
        assume(not as_in_a_file.match_file(path))
        assert not check(path)
    path = f"{path}{name}/" if is_directory else f"{path}{name}"
    assert check(path) == bool(as_in_a_file.match_file(path))  # None in early versions
