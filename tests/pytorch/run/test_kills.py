"""Training that is killed at the worst moments resumes as if it had not been; the long form is `make soak`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.soak.lives import Kill, Life


@pytest.mark.thorough
def test_one_rank_killed_in_every_dangerous_moment(tmp_path: Path) -> None:
    undisturbed = Life(tmp_path / "undisturbed", workers=2)
    undisturbed.run()
    life = Life(tmp_path / "killed", workers=2)
    for kill in (
        Kill(signal.SIGKILL, "write", 2),
        Kill(signal.SIGTERM, "validation", 3),
        Kill(signal.SIGKILL, "published", 2),
    ):
        hit = life.hit(kill)
        assert hit.reached, kill
        assert hit.violations == [], kill
    life.run()
    assert life.differences(undisturbed) == []

    stopped = Life(tmp_path / "stopped", workers=2)
    assert stopped.hit(Kill(signal.SIGTERM, "validation", 40)).violations == []  # the one after the last batch
    stopped.run()
    assert stopped.differences(undisturbed) == []


@pytest.mark.thorough
def test_two_ranks_stopped_inside_an_aggregation_window_and_one_killed(tmp_path: Path) -> None:
    undisturbed = Life(tmp_path / "undisturbed", ranks=2)
    undisturbed.run()
    life = Life(tmp_path / "killed", ranks=2)
    for kill in (Kill(signal.SIGTERM, "validation", 2, target=1), Kill(signal.SIGKILL, "batch", 6, target=1)):
        hit = life.hit(kill)
        assert hit.reached, kill
        assert hit.violations == [], kill
    life.run()
    assert life.differences(undisturbed) == []
