"""The contract of the store, tested on each kind of database."""

from __future__ import annotations

import math
from typing import Any

import pytest

from determined.errors import StoreError
from determined.store.open import open_store
from determined.store.rows import EndRow, LogRow, MetadataRow, Row, StatusRow
from determined.store.store import Store
from tests.store.rows import GONE, alive, begin, checkpoint, metric, start


def kept(store: Store, trial_id: int, group: str | None = None, **options: Any) -> dict[Any, Any]:
    rows = store.metrics(trial_id, group, **options)
    return {(row.group, row.steps_completed): row.metrics for row in rows}


class TestRuns:
    def test_a_standalone_run_is_an_experiment_with_one_trial(self, store: Store) -> None:
        attempt = begin(store)
        (run,) = store.runs()
        assert (run.experiment_id, run.trial_id, run.parent_id) == (attempt.experiment_id, attempt.trial_id, None)
        assert (run.program, run.hparams, run.created) == ("/home/me/train.py", {"lr": 0.5}, 1000.0)
        assert (run.phase, run.progress, run.metadata, run.early_exit) == ("", None, {}, None)
        assert store.attempts(attempt.trial_id) == [run.attempt]
        assert (run.attempt.number, run.attempt.start_step, run.attempt.process) == (1, 0, GONE)
        assert (run.attempt.state, run.attempt.started, run.attempt.ended) == ("running", 2000.0, None)

    def test_runs_are_listed_newest_first(self, store: Store) -> None:
        first, second = begin(store), begin(store)
        begin(store, previous=first)
        assert [run.trial_id for run in store.runs()] == [first.trial_id, second.trial_id]
        assert [run.trial_id for run in store.runs(limit=1)] == [first.trial_id]

    def test_asking_again_changes_nothing(self, store: Store) -> None:
        asked = start()
        assert store.begin_attempt(asked) == store.begin_attempt(asked)
        assert len(store.runs()) == 1

    def test_training_on_from_a_checkpoint_is_the_same_trial(self, store: Store) -> None:
        first = begin(store)
        store.write([checkpoint(first, 5, "c"), metric(first, "training", 5, {"loss": 1})])
        second = begin(store, checkpoint="c", steps=5)
        assert (second.trial_id, second.number) == (first.trial_id, 2)
        assert [(a.number, a.start_step, a.state) for a in store.attempts(first.trial_id)] == [
            (1, 0, "running"),  # it was killed before it recorded its end
            (2, 5, "running"),
        ]

    def test_a_trial_that_still_lives_is_left_alone(self, store: Store) -> None:
        first = begin(store, process=alive())
        store.write([checkpoint(first, 5, "c")])
        second = begin(store, checkpoint="c", steps=5)
        assert second.trial_id != first.trial_id
        assert second.experiment_id != first.experiment_id
        assert store.runs()[0].parent_id == first.trial_id
        store.write([EndRow(first.trial_id, 1, "stopped", 5000.0, 7.5)])
        assert begin(store, checkpoint="c", steps=5).trial_id == first.trial_id

    def test_a_run_continues_its_own_trial(self, store: Store) -> None:
        first = begin(store, process=alive())
        store.write([checkpoint(first, 5, "c")])
        again = begin(store, process=alive(), previous=first)
        resumed = begin(store, process=alive(), previous=again, checkpoint="c", steps=5)
        unknown = begin(store, process=alive(), previous=resumed, checkpoint="from elsewhere", steps=9)
        assert [attempt.trial_id for attempt in (again, resumed, unknown)] == [first.trial_id] * 3
        assert unknown.number == 4

    def test_an_unknown_checkpoint_makes_a_new_run(self, store: Store) -> None:
        begin(store, checkpoint="from elsewhere", steps=5)
        (run,) = store.runs()
        assert (run.parent_id, run.attempt.start_step) == (None, 5)

    def test_statuses_and_the_end(self, store: Store) -> None:
        attempt = begin(store)
        status = StatusRow(attempt.trial_id, 1, "training", 0.1 + 0.2, "INVALID_HP", True)
        metadata = MetadataRow(attempt.trial_id, 1, {"a": [1, None]})
        store.write([status, metadata, EndRow(attempt.trial_id, 1, "failed", 5000.0, 7.5)])
        (run,) = store.runs()
        assert (run.phase, run.progress, run.metadata) == ("training", 0.30000000000000004, {"a": [1, None]})
        assert (run.early_exit, run.stop_acknowledged) == ("INVALID_HP", True)
        assert (run.attempt.state, run.attempt.ended, run.attempt.seconds) == ("failed", 5000.0, 7.5)
        following = begin(store, previous=attempt)
        assert following.metadata == {"a": [1, None]}
        store.write([status])  # late, of the previous attempt
        (run,) = store.runs()
        assert (run.phase, run.progress, run.early_exit, run.stop_acknowledged) == ("", None, None, False)

    def test_what_cannot_be_stored_as_it_is_is_written_as_an_escape(self, store: Store) -> None:
        attempt = begin(store, program="/home/\udce9/a\0b.py")
        row = metric(attempt, "g\0\ud800", 1, {"\0\ud800": "\0\ud800 \N{SNOWMAN}"})
        store.write([row, StatusRow(attempt.trial_id, 1, "\0\ud800")])
        (run,) = store.runs()
        assert (run.program, run.phase) == ("/home/\\udce9/a\\x00b.py", "\\x00\\ud800")
        found = store.find_metric(attempt.trial_id, "g\0\ud800", 1)
        assert found is not None
        assert found.metrics == {"\0\ud800": "\0\ud800 \N{SNOWMAN}"}


class TestMetrics:
    def test_values_come_back_exactly(self, store: Store) -> None:
        values = {
            "doubles": [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0],
            "big": 10**400,
            "text": "ß\u2028'\"\\",
            "inf": [math.inf, -math.inf],
            "": None,
            "nan": math.nan,
        }
        attempt = begin(store)
        row = metric(attempt, "validation", 2**62, values)
        store.write([row])
        (found,) = store.metrics(attempt.trial_id)
        assert repr(found.metrics) == repr(values)
        assert (found.group, found.steps_completed, found.reported) == ("validation", 2**62, 3000.0)
        assert (found.attempt, found.sequence, found.archived) == (1, row.sequence, False)

    def test_many_metrics_and_long_names(self, store: Store) -> None:
        attempt = begin(store)
        values = {f"{i}-" + "n" * 5000: float(i) for i in range(1000)}
        store.write([metric(attempt, "training", 1, values)])
        assert kept(store, attempt.trial_id) == {("training", 1): values}

    def test_groups_and_trials_are_apart_and_in_the_order_of_reports(self, store: Store) -> None:
        one, other = begin(store), begin(store)
        store.write([metric(one, "b", 2, {"x": 1}), metric(other, "b", 2, {"x": 2}), metric(one, "a", 1, {"x": 3})])
        assert list(kept(store, one.trial_id)) == [("b", 2), ("a", 1)]
        assert kept(store, one.trial_id, "b") == {("b", 2): {"x": 1}}
        assert kept(store, other.trial_id) == {("b", 2): {"x": 2}}
        assert store.find_metric(one.trial_id, "b", 3) is None

    def test_one_attempt_adds_to_its_own_step(self, store: Store) -> None:
        attempt = begin(store)
        parts: list[dict[str, Any]] = [{}, {"a": math.nan}, {}, {"a": math.nan, "b": {"c": 1}}, {"d": "}"}]
        rows = [metric(attempt, "g", 1, part) for part in parts]
        store.write(rows[:3])  # in one transaction, and in others
        for row in rows[3:]:
            store.write([row])
        assert repr(kept(store, attempt.trial_id)) == repr({("g", 1): {"a": math.nan, "b": {"c": 1}, "d": "}"}})

    def test_a_newer_attempt_replaces_and_an_older_one_does_not(self, store: Store) -> None:
        first = begin(store)
        store.write([metric(first, "g", step, {"old": step}) for step in (1, 2, 3)])
        second = begin(store, previous=first, steps=1)
        store.write([metric(second, "g", 2, {"new": 2})])
        store.write([metric(first, "g", 2, {"old": 0}), metric(second, "g", 2, {"more": 2})])
        assert kept(store, first.trial_id) == {("g", 1): {"old": 1}, ("g", 2): {"new": 2, "more": 2}}
        everything = store.metrics(first.trial_id, archived=True)
        assert [(row.steps_completed, row.attempt, row.archived) for row in everything] == [
            (1, 1, False),
            (3, 1, True),
            (2, 2, False),
        ]

    def test_an_attempt_that_was_overtaken_archives_what_it_reports(self, store: Store) -> None:
        first = begin(store)
        second = begin(store, previous=first, steps=4)
        begin(store, previous=second, steps=2)
        rows = [metric(attempt, "g", step, {}) for attempt in (first, second) for step in (2, 3, 4)]
        store.write(rows)
        store.write(rows)
        assert list(kept(store, first.trial_id)) == [("g", 2)]
        assert len(kept(store, first.trial_id, archived=True)) == 3

    def test_writing_the_same_rows_again_changes_nothing(self, store: Store) -> None:
        attempt = begin(store)
        rows: list[Row] = [
            metric(attempt, "g", 1, {"a": 1}),
            metric(attempt, "g", 1, {"b": 2}),
            metric(attempt, "system", None, {"cpu": 1}),
            checkpoint(attempt, 1, "c"),
            LogRow(attempt.trial_id, 1, 0, 0, "stdout", "hello", 1.0),
            StatusRow(attempt.trial_id, 1, "training"),
        ]

        def everything() -> list[Any]:
            trial = attempt.trial_id
            return [kept(store, trial), store.samples(trial), store.checkpoints(trial), store.logs(trial), store.runs()]

        store.write(rows)
        before = everything()
        store.write(rows)
        assert everything() == before

    def test_samples_are_all_kept(self, store: Store) -> None:
        attempt = begin(store)
        store.write([metric(attempt, "cpu", None, {"x": i}) for i in range(3)])
        later = begin(store, previous=attempt)
        store.write([metric(later, "cpu", None, {"x": 3}), metric(later, "disk", None, {"x": 4})])
        assert [row.metrics["x"] for row in store.samples(attempt.trial_id, "cpu")] == [0, 1, 2, 3]
        assert [row.metrics["x"] for row in store.samples(attempt.trial_id)] == [0, 1, 2, 3, 4]
        assert store.metrics(attempt.trial_id) == []

    def test_all_or_nothing(self, store: Store) -> None:
        attempt = begin(store)
        unknown = metric(attempt, "g", 2, {})._replace(trial_id=999)
        with pytest.raises(StoreError):
            store.write([metric(attempt, "g", 1, {}), unknown])
        assert store.metrics(attempt.trial_id) == []
        store.write([metric(attempt, "g", 1, {})])
        assert list(kept(store, attempt.trial_id)) == [("g", 1)]

    def test_thousands_of_rows_at_once(self, store: Store) -> None:
        attempt = begin(store)
        store.write([metric(attempt, "g", step % 2500, {str(step): step}) for step in range(5000)])
        found = kept(store, attempt.trial_id)
        assert found == {("g", step): {str(step): step, str(step + 2500): step + 2500} for step in range(2500)}


class TestCheckpoints:
    def test_newest_first_with_the_validation_of_the_same_step(self, store: Store) -> None:
        attempt = begin(store)
        store.write(
            [
                checkpoint(attempt, 9, "first"),
                checkpoint(attempt, 5, "second"),
                metric(attempt, "validation", 5, {"error": math.inf}),
                metric(attempt, "training", 9, {"loss": 1}),
            ]
        )
        second, first = store.checkpoints(attempt.trial_id)
        assert (second.checkpoint_id, second.steps_completed, second.validation) == ("second", 5, {"error": math.inf})
        assert (first.checkpoint_id, first.steps_completed, first.validation) == ("first", 9, None)
        assert (first.metadata, first.resources) == ({"steps_completed": 9}, {"state_dict.pth": 5})
        assert (first.storage, first.state, first.attempt, first.reported) == ("/checkpoints", "ACTIVE", 1, 4000.0)

    def test_the_latest_of_a_program_is_of_its_newest_run(self, store: Store) -> None:
        old, new = begin(store), begin(store)
        store.write([checkpoint(new, 1, "new-1"), checkpoint(new, 2, "new-2")])
        store.write([checkpoint(old, 7, "old-7")])
        other = begin(store, program="/home/me/other.py")
        store.write([checkpoint(other, 1, "other")])

        def latest(program: str | None) -> list[str]:
            return [found.checkpoint_id for found in store.latest_checkpoints(program=program)]

        assert latest("/home/me/train.py") == ["new-2", "new-1", "old-7"]
        assert latest(None) == ["other", "new-2", "new-1", "old-7"]
        assert latest("/nobody.py") == []
        begin(store, checkpoint="old-7", steps=7)  # which makes it the newest run
        store.set_checkpoint_deleted("new-2")
        assert latest("/home/me/train.py") == ["old-7", "new-1"]
        assert [found.checkpoint_id for found in store.latest_checkpoints(limit=1)] == ["old-7"]
        assert [found.state for found in store.checkpoints(new.trial_id)] == ["DELETED", "ACTIVE"]

    def test_the_latest_of_an_identity_are_those_that_its_own_attempts_saved(self, store: Store) -> None:
        def latest(identity: str, program: str | None = None) -> list[str]:
            return [found.checkpoint_id for found in store.latest_checkpoints(identity, program)]

        earlier = begin(store)  # recorded by an earlier version, which stored no identities
        store.write([checkpoint(earlier, 1, "earlier")])
        mine, other = begin(store, identity="file:me@here:/home/me/train.py"), begin(store, identity="name:me:other")
        store.write([checkpoint(mine, 2, "mine"), checkpoint(other, 3, "other")])
        assert latest("file:me@here:/home/me/train.py") == ["mine"]
        assert latest("file:me@here:/home/me/train.py", "/home/me/train.py") == ["mine", "earlier"]
        assert latest("name:me:other") == ["other"]
        assert latest("name:you:other") == []
        # Another program that continues the trial from a checkpoint given by its id has checkpoints of its own.
        borrowed = begin(store, checkpoint="mine", steps=2, identity="name:me:other")
        assert borrowed.trial_id == mine.trial_id
        store.write([checkpoint(borrowed, 4, "continued")])
        assert latest("file:me@here:/home/me/train.py") == ["mine"]
        assert latest("name:me:other") == ["continued", "other"]
        assert store.identities("/home/me/train.py") == ["file:me@here:/home/me/train.py", "name:me:other"]
        assert store.identities("/home/me/else.py") == []


class TestLogsAndRequests:
    def test_the_state_of_a_progress_bar_is_replaced(self, store: Store) -> None:
        attempt = begin(store)

        def row(sequence: int, said: str, **more: Any) -> LogRow:
            return LogRow(attempt.trial_id, attempt.number, 0, sequence, "stderr", said, 4000.0 + sequence, **more)

        def lines() -> list[tuple[str, bool]]:
            return [(line.text, line.finished) for line in store.logs(attempt.trial_id)]

        store.write([row(0, "begins"), row(1, " 10%", finished=False)])
        assert lines() == [("begins", True), (" 10%", False)]
        last = store.logs(attempt.trial_id)[-1].id
        again = [row(2, " 55%", finished=False, replaces=1)]
        store.write(again)
        store.write(again)  # repeated after a lost answer
        assert lines() == [("begins", True), (" 55%", False)]
        store.write([row(3, "100%", replaces=2), row(4, "ends")])
        assert lines() == [("begins", True), ("100%", True), ("ends", True)]
        assert [line.text for line in store.logs(attempt.trial_id, after=last)] == ["100%", "ends"]

    def test_lines_come_back_in_order_from_where_a_reader_was(self, store: Store) -> None:
        attempt = begin(store)

        def line(rank: int, sequence: int, text: str) -> LogRow:
            return LogRow(attempt.trial_id, 1, rank, sequence, "stderr", text, 6000.0)

        store.write([line(0, 0, "one"), line(1, 0, "two\0")])
        first = store.logs(attempt.trial_id)
        assert [(log.rank, log.text, log.stream, log.written) for log in first] == [
            (0, "one", "stderr", 6000.0),
            (1, "two\\x00", "stderr", 6000.0),
        ]
        store.write([line(0, 1, "three")])
        assert [log.text for log in store.logs(attempt.trial_id, after=first[-1].id)] == ["three"]

    def test_requests_are_for_the_attempt_that_runs(self, store: Store) -> None:
        first = begin(store)
        other = begin(store)
        number = store.add_request(first.trial_id, "pause")
        store.add_request(other.trial_id, "kill")
        (request,) = store.requests(first.trial_id, after=first.last_request)
        assert (request.id, request.kind, request.trial_id) == (number, "pause", first.trial_id)
        assert store.requests(first.trial_id, after=number) == []
        assert begin(store, previous=first).last_request == number

    def test_a_request_to_an_unknown_trial_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreError, match="Trial 7 not found"):
            store.add_request(7, "kill")


def test_a_second_connection_sees_what_the_first_wrote(store: Store, place: str) -> None:
    attempt = begin(store)
    store.write([metric(attempt, "g", 1, {"a": 1})])
    other = open_store(place)
    try:
        assert kept(other, attempt.trial_id) == {("g", 1): {"a": 1}}
        assert other.place == store.place
    finally:
        other.close()
