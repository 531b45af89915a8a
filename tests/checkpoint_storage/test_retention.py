"""Which checkpoints are kept: the policy's numbers, and a clean-up that loses no valid checkpoint."""

from __future__ import annotations

import logging
import math
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.checkpoint_storage import DirectoryStorage, manifest
from determined.checkpoint_storage.retention import Candidate, Policy, clean_up, keep

A, B = 1, 2
NAN, INF = math.nan, math.inf


def checkpoint(name: str, trial: int, steps: int, metric: float | None = None, validated: int = 0) -> Candidate:
    return Candidate(name, trial, steps, metric, validated)


EXAMPLE = [
    checkpoint("a1", A, 1),
    checkpoint("a2", A, 2, 0.31, 1),
    checkpoint("a3", A, 3, 0.28, 2),
    checkpoint("a4", A, 4, 0.35, 3),
    checkpoint("b1", B, 1, 0.22, 4),
    checkpoint("b2", B, 2),
    checkpoint("b3", B, 3, 0.27, 5),
]


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ((0, 0, 0), ""),
        ((2, 0, 0), "b1 b3"),
        ((0, 1, 0), "a3 b1"),
        ((0, 0, 1), "a4 b3"),
        ((0, 1, 1), "a3 a4 b1 b3"),
        ((0, 0, 2), "a3 a4 b2 b3"),
        ((9, 9, 9), "a1 a2 a3 a4 b1 b2 b3"),
    ],
)
def test_the_worked_example(numbers: tuple[int, int, int], kept: str) -> None:
    assert keep(EXAMPLE, Policy(*numbers)) == set(kept.split())


def test_larger_can_be_better() -> None:
    assert keep(EXAMPLE, Policy(0, 1, 0, smaller_is_better=False)) == {"a4", "b3"}


def test_checkpoints_without_validation_are_ranked_in_their_own_trial() -> None:
    history = [checkpoint("a", A, 9), checkpoint("b", B, 5)]
    assert keep(history, Policy(0, 1, 1)) == {"a", "b"}


def test_of_equal_metrics_the_older_validation_is_better() -> None:
    history = [checkpoint("late", A, 1, 0.5, 7), checkpoint("early", A, 2, 0.5, 3)]
    for smaller in (True, False):
        assert keep(history, Policy(0, 1, 0, smaller)) == {"early"}
        assert keep(history, Policy(1, 0, 0, smaller)) == {"early"}


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("smaller", [True, False])
def test_what_is_no_number_is_never_best(value: float, smaller: bool) -> None:
    history = [checkpoint("bad", A, 1, value, 1), checkpoint("good", A, 2, 3.0, 2)]
    assert keep(history, Policy(5, 5, 0, smaller)) == {"good"}


def test_of_the_same_step_the_one_stored_later_is_the_newer() -> None:
    history = [checkpoint("first attempt", A, 4), checkpoint("second attempt", A, 4)]
    assert keep(history, Policy(0, 0, 1)) == {"second attempt"}


def test_registered_ones_and_those_in_use_always_stay() -> None:
    history = [replace(EXAMPLE[0], registered=True), replace(EXAMPLE[5], in_use=True), *EXAMPLE[1:5]]
    assert keep(history, Policy(0, 0, 0)) == {"a1", "b2"}


@pytest.mark.parametrize("number", [-1, 1.5, True, "1", None])
def test_numbers_that_make_no_sense_are_refused_by_name(number: object) -> None:
    with pytest.raises(ValueError, match="save_trial_best"):
        Policy(save_trial_best=number)  # type: ignore[arg-type]


class Files:
    """Real checkpoints in a directory, some of them damaged."""

    def __init__(self, root: Path) -> None:
        self.storage = DirectoryStorage(root)
        self.root = root
        self._damaged: set[str] = set()

    def put(self, checkpoint: Candidate) -> Candidate:
        directory = self.root / checkpoint.checkpoint_id
        directory.mkdir(parents=True)
        (directory / "state_dict.pth").write_bytes(checkpoint.checkpoint_id.encode() * 10)
        manifest.write(directory)
        return replace(checkpoint, resources=self.storage.resources(checkpoint.checkpoint_id))

    def damage(self, name: str) -> None:
        (self.root / name / "state_dict.pth").write_bytes(b"x" * len(name) * 10)
        self._damaged.add(name)

    def there(self) -> set[str]:
        return {path.name for path in self.root.iterdir()}

    def good(self) -> set[str]:
        return self.there() - self._damaged


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "checkpoints")


def test_a_clean_up_leaves_what_the_policy_keeps(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    history = [files.put(c) for c in EXAMPLE]
    with caplog.at_level(logging.INFO, "determined"):
        done = clean_up(files.storage, history, Policy(0, 1, 1))
    assert files.there() == {"a3", "a4", "b1", "b3"}
    assert set(done.removed) == {"a1", "a2", "b2"}
    assert done.damaged == ()
    assert all(f"Deleted checkpoint {name}" in caplog.text for name in done.removed)
    # Repeated for a process that did not get the first answer.
    assert clean_up(files.storage, history, Policy(0, 1, 1)).removed == done.removed
    assert files.there() == {"a3", "a4", "b1", "b3"}


def test_a_damaged_newest_one_does_not_count_as_kept(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    history = [files.put(c) for c in EXAMPLE[:4]]
    files.damage("a4")
    done = clean_up(files.storage, history, Policy(0, 0, 1))
    assert files.there() == {"a3", "a4"}
    assert done.damaged == ("a4",)
    assert "a4 is damaged" in caplog.text


def test_a_damaged_best_one_is_replaced_by_the_next_best(files: Files) -> None:
    history = [files.put(c) for c in EXAMPLE]
    files.damage("b1")
    clean_up(files.storage, history, Policy(2, 0, 0), ended=[A, B])
    assert {"b3", "a3"} <= files.good()


def test_a_trial_without_a_good_checkpoint_loses_none(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    history = [files.put(c) for c in EXAMPLE[:4]]
    for c in history:
        files.damage(c.checkpoint_id)
    assert clean_up(files.storage, history, Policy(0, 0, 1)).removed == ()
    assert files.there() == {"a1", "a2", "a3", "a4"}
    assert "trial 1 has no good checkpoint" in caplog.text


def test_a_policy_of_nothing_leaves_the_newest_until_asked_for_everything(files: Files) -> None:
    history = [files.put(c) for c in EXAMPLE]
    clean_up(files.storage, history, Policy(0, 0, 0))
    assert files.there() == {"a4", "b3"}
    clean_up(files.storage, history, Policy(0, 0, 0), even_the_last=True)
    assert files.there() == {"a4", "b3"}
    clean_up(files.storage, history, Policy(0, 0, 0), ended=[A, B])
    assert files.there() == {"a4", "b3"}
    clean_up(files.storage, history, Policy(0, 0, 0), ended=[A], even_the_last=True)
    assert files.there() == {"b3"}


def test_a_trial_that_ended_needs_only_what_the_policy_keeps(files: Files) -> None:
    history = [files.put(c) for c in EXAMPLE[:4]]
    clean_up(files.storage, history, Policy(0, 1, 0))
    assert files.there() == {"a3", "a4"}
    clean_up(files.storage, history, Policy(0, 1, 0), ended=[A])
    assert files.there() == {"a3"}


def test_the_one_stored_last_stays_after_a_step_back(files: Files) -> None:
    history = [files.put(checkpoint(name, A, steps)) for name, steps in [("x", 10), ("y", 20), ("back", 11)]]
    clean_up(files.storage, history, Policy(0, 0, 1))
    assert files.there() == {"y", "back"}


def test_what_was_announced_is_compared_where_there_is_no_manifest(files: Files) -> None:
    history = [files.put(c) for c in EXAMPLE[:4]]
    (files.root / "a4" / "manifest.json").unlink()
    assert clean_up(files.storage, history, Policy(0, 0, 1)).damaged == ("a4",)
    assert files.there() == {"a3", "a4"}
    announced = [
        replace(c, resources={n: size for n, size in (c.resources or {}).items() if n != "manifest.json"})
        for c in history
    ]
    clean_up(files.storage, announced, Policy(0, 0, 1))
    assert files.there() == {"a4"}


def test_an_unknown_checkpoint_is_not_deleted(files: Files) -> None:
    history = [replace(files.put(c), resources=None) for c in EXAMPLE[:4]]
    (files.root / "a4" / "manifest.json").unlink()
    clean_up(files.storage, history, Policy(0, 0, 1))
    assert files.there() == {"a3", "a4"}


def test_storage_that_cannot_be_read_is_no_reason_to_delete(files: Files) -> None:
    history = [files.put(c) for c in EXAMPLE[:4]]
    present = files.there()

    class Unreachable(DirectoryStorage):
        def resources(self, checkpoint_id: str) -> dict[str, int]:
            raise ConnectionError("the storage cannot be reached")

    with pytest.raises(ConnectionError):
        clean_up(Unreachable(files.root), history, Policy(0, 0, 1))
    assert files.there() == present


METRICS = st.none() | st.sampled_from([0.1, 0.2, 0.3, NAN, INF, -INF])
SAVES = st.tuples(st.integers(1, 2), st.integers(0, 3), METRICS, st.booleans(), st.booleans())
POLICIES = st.builds(Policy, st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.booleans())


@dataclass
class History:
    """Trials that save, sometimes go back some steps, are sometimes damaged, and clean up after each checkpoint."""

    files: Files
    policy: Policy
    stored: list[Candidate] = field(default_factory=list)
    steps: dict[int, int] = field(default_factory=dict)

    def save(self, trial: int, advance: int, metric: float | None, damaged: bool, registered: bool) -> None:
        self.steps[trial] = max(1, self.steps.get(trial, 0) + advance - (1 if advance == 0 else 0))
        number = len(self.stored)
        new = Candidate(f"c{number}", trial, self.steps[trial], metric, number, registered and number % 3 == 0)
        self.stored.append(self.files.put(new))
        if damaged:
            self.files.damage(new.checkpoint_id)
        self.check_a_clean_up(ended=[])

    def check_a_clean_up(self, ended: list[int]) -> None:
        present, good = self.files.there(), self.files.good()
        living = [c for c in self.stored if c.checkpoint_id in present]
        clean_up(self.files.storage, living, self.policy, ended=ended)
        left = self.files.there()
        assert keep(living, self.policy) <= left
        for trial in {c.trial for c in living}:
            own = [c for c in living if c.trial == trial and c.checkpoint_id in good]
            if not own:
                assert {c.checkpoint_id for c in living if c.trial == trial} <= left
            elif trial in ended:
                assert any(c.checkpoint_id in left for c in own)
            else:
                newest = max(own, key=lambda c: (c.steps, living.index(c)))
                assert newest.checkpoint_id in left
                assert own[-1].checkpoint_id in left
        # Only valid checkpoints count.
        assert keep([c for c in living if c.checkpoint_id in good], self.policy) <= left


def lose_nothing(policy: Policy, saves: list[tuple[int, int, float | None, bool, bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        history = History(Files(Path(directory)), policy)
        for save in saves:
            history.save(*save)
        history.check_a_clean_up(ended=[1])
        history.check_a_clean_up(ended=[1, 2])


HISTORIES = given(policy=POLICIES, saves=st.lists(SAVES, max_size=7))
SLOWLY = settings(suppress_health_check=[HealthCheck.too_slow])
test_no_history_loses_its_good_checkpoints = settings(SLOWLY, max_examples=250)(HISTORIES(lose_nothing))
test_no_history_of_a_thousand = pytest.mark.thorough(settings(SLOWLY, max_examples=1000)(HISTORIES(lose_nothing)))
