"""A rank that is lost while training is a clear error on the other one, never a hang; `make soak` tries all ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.lost_ranks import lose


@pytest.mark.parametrize(
    ("how", "where", "lost"),
    [
        ("SIGKILL", "batch", 1),
        ("exception", "batch", 0),
        pytest.param("exit0", "validation", 0, marks=pytest.mark.thorough),
        pytest.param("SIGSTOP", "saving", 1, marks=pytest.mark.thorough),
    ],
)
def test_the_other_rank_ends_soon_and_names_it(how: str, where: str, lost: int, tmp_path: Path) -> None:
    assert lose(tmp_path / "job", how, where, lost, is_warm=True).violations == []
