"""The contract of the store for experiments with a search, tested on each kind of database."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from determined.errors import StoreError
from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.experiment_records import JournalEntry
from determined.store.process import Process, this_process
from determined.store.records import LogFilter
from determined.store.rows import EndRow, LogRow, StatusRow
from determined.store.sql.columns import text as stored
from determined.store.store import Store
from tests.store.experiments import (
    allocate,
    begin_managed,
    held_experiment,
    managed_start,
    new_experiment,
    new_trial,
    with_trials,
)
from tests.store.rows import alive, begin, checkpoint, metric


class TestExperiments:
    def test_it_comes_back_as_it_was_given(self, store: Store) -> None:
        new = new_experiment(smaller_is_better=False, metric="accuracy")
        experiment_id = store.experiments.create(new)
        assert store.experiments.create(new) == experiment_id
        (found,) = store.experiments.list()
        assert found == store.experiments.get(experiment_id)
        for name in ("key", "name", "description", "labels", "config", "original", "seed", "code_dir", "owner"):
            assert getattr(found, name) == getattr(new, name)
        assert (found.created, found.metric, found.smaller_is_better) == (1000.0, "accuracy", False)
        assert (found.is_standalone, found.program, found.archived, found.parent_id) == (False, "", False, None)
        assert (found.state, found.progress, found.ended, found.reason) == ("ACTIVE", 0.0, None, None)
        assert (found.holder, found.trial_count, found.best, found.last_request) == (None, 0, None, 0)

    def test_a_fork_that_is_paused(self, store: Store) -> None:
        parent = store.experiments.create(new_experiment())
        child = store.experiments.get(store.experiments.create(new_experiment(parent_id=parent, paused=True)))
        assert (child.parent_id, child.state) == (parent, "PAUSED")

    def test_what_cannot_be_stored_as_it_is_is_written_as_an_escape(self, store: Store) -> None:
        odd = "a\0b\udce9 \N{SNOWMAN}"
        new = new_experiment(name=odd, original=odd, labels=[odd], config={odd: math.inf})
        found = store.experiments.get(store.experiments.create(new))
        assert found.name == found.original == "a\\x00b\\udce9 \N{SNOWMAN}"
        assert (found.labels, found.config) == ([odd], {odd: math.inf})

    def test_the_list_is_newest_first_and_has_pages(self, store: Store) -> None:
        ids = [store.experiments.create(new_experiment(created=1000.0 - number)) for number in range(5)][::-1]
        assert [found.id for found in store.experiments.list()] == ids
        assert [found.id for found in store.experiments.list(limit=2, offset=1)] == ids[1:3]

    def test_what_was_put_away_is_listed_on_request(self, store: Store) -> None:
        lease = held_experiment(store)
        store.experiments.commit(lease, Change(experiment=ExperimentChange(archived=True)))
        assert store.experiments.list() == []
        (found,) = store.experiments.list(archived=True)
        assert found.archived

    def test_changes(self, store: Store) -> None:
        lease = held_experiment(store)
        commit, get = store.experiments.commit, store.experiments.get
        over = ExperimentChange("COMPLETED", 1.0, "all is well\0", 5000.0, "other", max_trials=9, last_request=3)
        commit(lease, Change(experiment=over))
        found = get(lease.experiment_id)
        assert (found.state, found.progress, found.reason, found.ended) == (
            "COMPLETED",
            1.0,
            "all is well\\x00",
            5000.0,
        )
        assert (found.name, found.last_request) == ("other", 3)
        assert found.config == {"searcher": {"name": "random", "metric": "error", "max_trials": 9}}
        commit(lease, Change(experiment=ExperimentChange(progress=0.5)))
        assert get(lease.experiment_id).ended == 5000.0
        commit(lease, Change(experiment=ExperimentChange("ACTIVE")))
        found = get(lease.experiment_id)
        assert (found.state, found.progress, found.ended, found.name) == ("ACTIVE", 0.5, None, "other")

    def test_unknown_ids_are_named(self, store: Store) -> None:
        experiments = store.experiments
        calls: list[Callable[[], object]] = [
            lambda: experiments.get(7),
            lambda: experiments.trials(7),
            lambda: experiments.acquire(7, alive()),
            lambda: experiments.request(7, "kill"),
            lambda: experiments.best_validation(7, "error", True),
        ]
        for call in calls:
            with pytest.raises(StoreError, match="Experiment 7 not found"):
                call()
        calls = [lambda: experiments.trial(8), lambda: experiments.decision(8)]
        for call in calls:
            with pytest.raises(StoreError, match="Trial 8 not found"):
                call()

    def test_numbers_of_more_than_64_bits_are_refused_with_a_message(self, store: Store) -> None:
        with pytest.raises(StoreError, match=r"64 bits|Experiment 100000000000000000000 not found"):
            store.experiments.get(10**20)
        with pytest.raises(StoreError, match=r"64 bits"):
            store.experiments.list(limit=10**20)
        assert store.experiments.list() == []  # it can be used as before


class TestRunsByHand:
    def test_they_are_in_the_list_with_a_state(self, store: Store) -> None:
        gone = Process(this_process().host, this_process().pid, "another start")
        attempts = [begin(store, process=process) for process in (alive(), gone, alive(), alive(), alive())]
        for attempt, state in zip(attempts[2:], ("completed", "stopped", "failed"), strict=True):
            store.write([EndRow(attempt.trial_id, 1, state, 5000.0, 7.5)])  # type: ignore[arg-type]
        elsewhere = begin(store)
        store.write([StatusRow(elsewhere.trial_id, 1, "training", 0.25)])
        found = store.experiments.list()[::-1]
        states = [experiment.state for experiment in found]
        assert states == ["ACTIVE", "ERROR", "COMPLETED", "PAUSED", "ERROR", "ACTIVE"]
        assert [experiment.ended for experiment in found] == [None, None, 5000.0, 5000.0, 5000.0, None]
        assert found[-1].progress == 0.25
        assert (found[0].is_standalone, found[0].name, found[0].program) == (True, "mine", "/home/me/train.py")
        assert (found[0].trial_count, found[0].best, found[0].metric) == (1, None, None)
        trials = [store.experiments.trial(attempt.trial_id) for attempt in attempts]
        assert [trial.state for trial in trials] == ["RUNNING", "ERROR", "COMPLETED", "PAUSED", "ERROR"]
        assert store.experiments.trials(attempts[2].experiment_id) == [trials[2]]
        assert (trials[2].number, trials[2].started, trials[2].ended) == (0, 2000.0, 5000.0)

    def test_only_a_request_cancels_them(self, store: Store) -> None:
        """Of several trials the interrupted ones are canceled; running and ended ones are not changed."""
        begun = [begin(store, process=alive(), external_experiment="one") for _ in range(4)]
        for attempt, state in zip(begun, ("stopped", "failed", "stopped"), strict=False):
            store.write([EndRow(attempt.trial_id, 1, state, 5000.0, 7.5)])  # type: ignore[arg-type]
        number, ids = begun[0].experiment_id, [attempt.trial_id for attempt in begun]

        def states() -> list[str]:
            return [trial.state for trial in store.experiments.trials(number)]

        assert states() == ["PAUSED", "ERROR", "PAUSED", "RUNNING"]
        assert store.experiments.cancel_paused(number, ids[2]) == [ids[2]]
        assert store.experiments.cancel_paused(number, ids[3]) == []
        assert states() == ["PAUSED", "ERROR", "CANCELED", "RUNNING"]
        assert store.experiments.cancel_paused(number) == ids[:1]
        assert states() == ["CANCELED", "ERROR", "CANCELED", "RUNNING"]
        lease, _ = with_trials(store, 1)
        assert store.experiments.cancel_paused(lease.experiment_id) == []

    def test_no_runner_can_acquire_them(self, store: Store) -> None:
        attempt = begin(store)
        with pytest.raises(StoreError, match="experiment 1 is a standalone run"):
            store.experiments.acquire(attempt.experiment_id, alive())

    def test_one_that_starts_from_a_checkpoint_of_a_search_is_a_separate_run(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        attempt = begin_managed(store, lease, trial_id)
        store.write([checkpoint(attempt, 5, "c"), EndRow(trial_id, 1, "completed", 5000.0, 7.5)])
        mine = begin(store, checkpoint="c", steps=5)
        assert mine.trial_id != trial_id
        assert store.runs()[0].parent_id == trial_id


class TestTrials:
    def test_they_come_back_as_they_were_given(self, store: Store) -> None:
        lease = held_experiment(store)
        new = (new_trial(1, source_checkpoint_id="uuid"), new_trial(0, goal=None))
        ids = store.experiments.commit(lease, Change(new_trials=new))
        first, second = store.experiments.trials(lease.experiment_id)
        assert [second.id, first.id] == ids
        assert (first.number, first.goal, first.source_checkpoint_id) == (0, None, None)
        for name in (
            "number",
            "request_id",
            "hparams",
            "seed",
            "goal",
            "rungs",
            "bracket",
            "source_checkpoint_id",
            "created",
        ):
            assert getattr(second, name) == getattr(new[0], name)
        assert (second.state, second.allocation, second.runs, second.restarts) == ("QUEUED", "", 0, 0)
        assert (second.steps_completed, second.best, second.latest_checkpoint) == (0, None, None)
        assert (second.started, second.ended, second.reason) == (None, None, None)
        assert store.experiments.trial(second.id) == second
        assert store.experiments.get(lease.experiment_id).trial_count == 2

    def test_changes(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)

        def change(**values: Any) -> Any:
            store.experiments.commit(lease, Change(trials=(TrialChange(trial_id, **values),)))
            return store.experiments.trial(trial_id)

        found = change(
            state="ERROR", runs=3, restarts=2, reason="exit code 1", ended=5000.0, source_checkpoint_id="uuid"
        )
        assert (found.state, found.runs, found.restarts, found.reason) == ("ERROR", 3, 2, "exit code 1")
        assert (found.ended, found.source_checkpoint_id, found.goal) == (5000.0, "uuid", 4.0)
        assert change(goal=16.0).goal == 16.0
        assert change(runs=4).goal == 16.0
        found = change(goal=None, state="QUEUED")
        assert (found.goal, found.ended, found.runs) == (None, None, 4)

    def test_what_a_program_passed_is_kept_beside_what_was_assigned(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        assert store.experiments.trial(trial_id).passed_hparams is None
        begin_managed(store, lease, trial_id)
        assert store.experiments.trial(trial_id).passed_hparams == {}

        start = managed_start(trial_id, allocate(store, lease, trial_id))
        odd = {"lr": math.inf, "net": {"a\0b \udce9": [1, None]}, "kind": dict}
        store.begin_attempt(start._replace(run=start.run._replace(passed_hparams=odd)))
        found = store.experiments.trial(trial_id)
        assert found.hparams == {"lr": 0.0}
        assert found.passed_hparams == {"lr": math.inf, "net": {"a\0b \udce9": [1, None]}, "kind": repr(dict)}
        assert found.effective_hparams == {**found.hparams, **found.passed_hparams}

        standalone = begin(store)
        own = store.experiments.trial(standalone.trial_id)
        assert (own.passed_hparams, own.effective_hparams) == (None, {"lr": 0.5})

    def test_a_new_allocation_begins_afresh(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        begin_managed(store, lease, trial_id)
        status = StatusRow(trial_id, 1, "training", 0.5, "INVALID_HP", True)
        store.write([status])
        allocation = store.experiments.trial(trial_id).allocation
        same = TrialChange(trial_id, allocation=allocation, runs=2)
        store.experiments.commit(lease, Change(trials=(same,)))
        found = store.experiments.trial(trial_id)
        assert (found.phase, found.progress, found.early_exit) == ("training", 0.5, "INVALID_HP")
        assert found.stop_acknowledged
        allocate(store, lease, trial_id)
        found = store.experiments.trial(trial_id)
        assert (found.phase, found.progress, found.early_exit, found.stop_acknowledged) == ("", None, None, False)

    def test_each_attempt_keeps_the_reason_why_it_ended(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)

        def end(reason: str) -> None:
            change = TrialChange(trial_id, state="QUEUED", restarts=1, reason=reason)
            store.experiments.commit(lease, Change(trials=(change,)))

        begin_managed(store, lease, trial_id)  # killed: it does not report its end
        end("killed by SIGKILL")
        failed = begin_managed(store, lease, trial_id)
        store.write([EndRow(trial_id, failed.number, "failed", 5000.0, 10.0)])
        end("ValueError: no")
        stopped = begin_managed(store, lease, trial_id)
        store.write([EndRow(trial_id, stopped.number, "stopped", 6000.0, 10.0)])
        end("exit code 1 before training began")  # of a process that began no attempt
        assert [attempt.reason for attempt in store.attempts(trial_id)] == ["killed by SIGKILL", "ValueError: no", None]

    def test_a_trial_of_another_experiment_is_not_touched(self, store: Store) -> None:
        _, (other,) = with_trials(store, 1)
        lease = held_experiment(store)
        for change in (Change(trials=(TrialChange(other, "ERROR"),)), Change(requests=((other, "kill"),))):
            with pytest.raises(StoreError, match=f"experiment {lease.experiment_id} has no trial with the id {other}"):
                store.experiments.commit(lease, change)
        assert store.experiments.trial(other).state == "QUEUED"

    def test_the_latest_checkpoint_is_one_that_exists(self, store: Store) -> None:
        lease, (trial_id, _) = with_trials(store, 2)
        attempt = begin_managed(store, lease, trial_id)
        store.write([checkpoint(attempt, 9, "first"), checkpoint(attempt, 5, "second")])
        assert store.experiments.trial(trial_id).latest_checkpoint == "second"
        store.set_checkpoint_deleted("second")
        assert store.experiments.trial(trial_id).latest_checkpoint == "first"

    def test_checkpoints_of_all_trials(self, store: Store) -> None:
        lease, trials = with_trials(store, 2)
        attempts = [begin_managed(store, lease, trial_id) for trial_id in trials]
        store.write([checkpoint(attempts[0], 1, "a"), checkpoint(attempts[1], 1, "b"), checkpoint(attempts[0], 2, "c")])
        store.write([metric(attempts[1], "validation", 1, {"error": 0.5})])
        found = store.experiments.checkpoints(lease.experiment_id)
        assert [row.checkpoint_id for row in found] == ["c", "b", "a"]
        assert found[1].validation == {"error": 0.5}


class TestAttempts:
    def test_a_managed_attempt_belongs_to_its_trial_with_any_checkpoint(self, store: Store) -> None:
        lease, (first, second) = with_trials(store, 2)
        attempt = begin_managed(store, lease, first)
        store.write([checkpoint(attempt, 5, "c")])
        warm = begin_managed(store, lease, second, steps=5, checkpoint="c")
        assert (warm.trial_id, warm.number, warm.experiment_id) == (second, 1, lease.experiment_id)
        again = begin_managed(store, lease, first, steps=5, checkpoint="c")
        assert (again.trial_id, again.number) == (first, 2)
        assert store.experiments.trial(first).started == 2000.0

    def test_an_allocation_that_was_overtaken_cannot_begin(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        old = allocate(store, lease, trial_id)
        new = allocate(store, lease, trial_id)
        with pytest.raises(StoreError, match=f"trial {trial_id} was started again as.*{new}.*{old}"):
            store.begin_attempt(managed_start(trial_id, old))
        assert store.attempts(trial_id) == []
        with pytest.raises(StoreError, match="Trial 99 not found"):
            store.begin_attempt(managed_start(99, new))
        asked = managed_start(trial_id, new)
        assert store.begin_attempt(asked) == store.begin_attempt(asked)

    def test_a_request_before_the_workers_start_is_not_missed(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        begin_managed(store, lease, trial_id)
        store.experiments.commit(lease, Change(requests=((trial_id, "pause"),)))
        allocation = allocate(store, lease, trial_id)
        store.experiments.commit(lease, Change(requests=((trial_id, "stop"),)))
        attempt = store.begin_attempt(managed_start(trial_id, allocation))
        (request,) = store.requests(trial_id, after=attempt.last_request)
        assert request.kind == "stop"
        assert store.experiments.decision(trial_id, after=attempt.last_request).requests == [request]

    def test_the_decision(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        allocation = allocate(store, lease, trial_id)
        decision = store.experiments.decision(trial_id)
        assert decision == (4.0, allocation, [])
        goal = Change(trials=(TrialChange(trial_id, goal=None),), requests=((trial_id, "pause"), (trial_id, "kill")))
        store.experiments.commit(lease, goal)
        decision = store.experiments.decision(trial_id)
        assert decision.goal is None
        assert [request.kind for request in decision.requests] == ["kill"], "the stronger one"


class TestJournal:
    def test_entries_are_kept_and_the_snapshot_is_replaced(self, store: Store) -> None:
        lease = held_experiment(store)
        experiments, experiment_id = store.experiments, lease.experiment_id
        assert experiments.snapshot(experiment_id) is None
        experiments.commit(lease, Change(snapshot={"begun": []}))
        assert experiments.snapshot(experiment_id) == (0, {"begun": []})
        entries = [JournalEntry(n, {"n": n, "metric": math.inf}, [{"a": n}] * n) for n in range(1, 5)]
        experiments.commit(lease, Change(journal=tuple(entries[:2]), snapshot={"seen": 2}))
        experiments.commit(lease, Change(journal=(entries[2],)))
        assert experiments.snapshot(experiment_id) == (2, {"seen": 2})
        experiments.commit(lease, Change(journal=(entries[3],), snapshot={"seen": 4}))
        assert experiments.snapshot(experiment_id) == (4, {"seen": 4})
        found = experiments.journal(experiment_id)
        assert [(row.sequence, row.event, row.actions) for row in found] == [
            (entry.sequence, entry.event, entry.actions) for entry in entries
        ]
        assert [row.sequence for row in experiments.journal(experiment_id, after=2)] == [3, 4]

    def test_a_number_with_another_content_is_refused(self, store: Store) -> None:
        lease = held_experiment(store)
        first = Change(journal=(JournalEntry(1, {"a": 1}, []),), new_trials=(new_trial(0),))
        store.experiments.commit(lease, first)
        other = Change(journal=(JournalEntry(1, {"a": 2}, []), JournalEntry(2, {}, [])))
        with pytest.raises(StoreError, match=r"entry 1 .* exists already with different content"):
            store.experiments.commit(lease, other)
        with pytest.raises(StoreError, match="another trial with the number 0"):
            store.experiments.commit(lease, Change(new_trials=(new_trial(1), new_trial(0, request_id="other"))))
        assert len(store.experiments.journal(lease.experiment_id)) == 1
        assert len(store.experiments.trials(lease.experiment_id)) == 1


class TestRequests:
    def test_they_come_in_order(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        other = held_experiment(store)
        first = store.experiments.request(lease.experiment_id, "pause")
        store.experiments.request(other.experiment_id, "cancel")
        second = store.experiments.request(lease.experiment_id, "kill", trial_id)
        found = store.experiments.requests(lease.experiment_id)
        assert [(row.id, row.kind, row.trial_id) for row in found] == [
            (first, "pause", None),
            (second, "kill", trial_id),
        ]
        assert [row.id for row in store.experiments.requests(lease.experiment_id, after=first)] == [second]
        with pytest.raises(StoreError, match=f"trial {trial_id} is not one of experiment {other.experiment_id}"):
            store.experiments.request(other.experiment_id, "kill", trial_id)


class TestLogs:
    def test_which_lines_are_shown(self, store: Store) -> None:
        _, (trial_id, other) = with_trials(store, 2)
        levels = ["DEBUG", "INFO", "ERROR", None, "CRITICAL", "WARNING"]

        def line(trial: int, number: int) -> LogRow:
            stream = ("stdout", "stderr")[number % 2]
            return LogRow(trial, 1, number % 3, number, stream, f"line {number}", 6000.0 + number, levels[number % 6])

        store.write([line(trial, number) for number in range(12) for trial in (trial_id, other)])

        def shown(**options: Any) -> list[int]:
            return [int(log.text.split()[1]) for log in store.logs(trial_id, **options)]

        assert shown() == list(range(12))
        assert shown(limit=2) == [0, 1]
        assert shown(tail=2) == [10, 11]
        assert shown(tail=5, limit=2) == [10, 11]
        assert shown(only=LogFilter(ranks=(1,))) == [1, 4, 7, 10]
        assert shown(only=LogFilter(ranks=(2, 1, 99))) == [1, 2, 4, 5, 7, 8, 10, 11]
        assert shown(only=LogFilter(streams=("stderr",), ranks=(1,))) == [1, 7]
        assert shown(only=LogFilter(level="ERROR")) == [2, 4, 8, 10]
        assert shown(only=LogFilter(level="DEBUG"), tail=3) == [8, 10, 11]
        assert shown(only=LogFilter(text="line 1")) == [1, 10, 11]
        assert shown(only=LogFilter(text="line 1"), tail=2) == [10, 11]
        assert shown(only=LogFilter(text="LINE")) == []
        assert shown(only=LogFilter(text="")) == list(range(12))
        assert shown(only=LogFilter(before=6003.0, after=6001.0)) == [2]
        assert store.newest_log(trial_id) == store.logs(trial_id)[-1].id
        assert store.newest_log(999) == 0
        third = store.logs(trial_id)[2]
        assert (third.level, third.rank, third.stream) == ("ERROR", 2, "stdout")
        assert shown(after=third.id, limit=1) == [3]
        with pytest.raises(StoreError, match=r"no level 'LOUD'.*WARNING"):
            shown(only=LogFilter(level="LOUD"))

    @pytest.mark.parametrize(
        "text", ["100%", "a_b", "a*b[c]?", "\\", "'", "é", "\N{GRINNING FACE}", "\0", "\udce9", "?", "%s"]
    )
    def test_a_text_is_searched_as_it_is(self, store: Store, text: str) -> None:
        _, (trial_id,) = with_trials(store, 1)
        lines = [f"before {text} after", "100 percent", "aXb", "acb", text.upper() + "!", "e"]
        store.write([LogRow(trial_id, 1, 0, number, "stdout", line, 6000.0) for number, line in enumerate(lines)])
        found = {log.text for log in store.logs(trial_id, only=LogFilter(text=text))}
        written = stored(text)
        assert found == {stored(line) for line in lines if written in stored(line)}
