"""The commit of a repository is read from its files, as git writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from determined.user_code.git_commit import git_commit


def git(directory: Path, *arguments: str) -> str:
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    done = subprocess.run(["git", *who, *arguments], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "deep" / "er").mkdir(parents=True)
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


def test_of_a_branch_packed_and_detached(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert git_commit(repository / "deep" / "er") == commit
    git(repository, "pack-refs", "--all")
    assert git_commit(repository) == commit
    git(repository, "checkout", "-q", "--detach")
    assert git_commit(repository) == commit


def test_of_a_worktree(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "two")
    commit = git(tmp_path / "tree", "rev-parse", "HEAD")
    assert commit != git(repository, "rev-parse", "HEAD")
    assert git_commit(tmp_path / "tree") == commit


@pytest.mark.parametrize(
    "head", ["ref: refs/heads/none", "ref: ../../etc/passwd", "ref: /etc/passwd", "", "x" * 40, "\0"]
)
def test_what_is_no_commit(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert git_commit(tmp_path) is None


def test_files_that_are_not_those_of_git(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert git_commit(tmp_path) is None
