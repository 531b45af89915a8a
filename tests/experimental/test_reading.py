"""Reading a search that has ended through the SDK."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from determined.core.initialize import open_run
from determined.errors import StoreError
from determined.experimental import Determined, Experiment, client
from determined.experimental.client import (
    CheckpointSortBy,
    CheckpointState,
    ExperimentSortBy,
    ExperimentState,
    LogLevel,
    OrderBy,
    TrialSortBy,
    TrialState,
)
from tests.helpers.records import opened
from tests.store.rows import begin, metric


class TestExperiment:
    def test_attributes(self, searched: Experiment) -> None:
        assert (searched.name, searched.description, searched.labels) == ("sdk search", "for tests", {"sdk", "linear"})
        assert (searched.state, searched.progress, searched.archived) == (ExperimentState.COMPLETED, 1.0, False)
        assert searched.config["searcher"]["max_trials"] == 3
        assert searched.get_config() == searched.config
        assert (searched.notes, searched.project_id, searched.workspace_id) == ("", None, None)
        assert searched.start_time is not None
        assert searched.end_time is not None
        assert searched.start_time.tzinfo is UTC
        assert searched.start_time < searched.end_time
        assert repr(searched) == f"Experiment(id={searched.id}, name='sdk search', state=COMPLETED)"

    def test_what_has_ended_needs_no_waiting_and_no_steering(self, searched: Experiment) -> None:
        assert searched.wait(interval=60) is ExperimentState.COMPLETED
        assert searched.await_first_trial().id == searched.list_trials()[0].id
        searched.kill()
        searched.cancel()
        searched.pause()
        assert searched.state is ExperimentState.COMPLETED

    def test_notes_of_people(self, searched: Experiment) -> None:
        searched.set_name("a/../b 'quoted'\n😀")
        searched.set_description("new")
        searched.set_notes("seen")
        searched.add_label("third")
        searched.remove_label("linear")
        again = client.get_experiment(searched.id)
        assert (again.name, again.description, again.notes) == ("a/../b 'quoted'\n😀", "new", "seen")
        assert again.labels == searched.labels == {"sdk", "third"}
        searched.set_labels({"sdk", "linear"})
        searched.set_name("sdk search")
        searched.set_description("for tests")
        searched.set_notes("")
        with pytest.raises(TypeError, match="labels must be a set or a list of strings, got 'one'"):
            searched.set_labels("one")

    def test_archiving(self, searched: Experiment) -> None:
        searched.archive()
        assert searched.archived
        assert client.list_experiments(archived=False) == []
        searched.unarchive()
        assert [found.id for found in client.list_experiments(archived=False)] == [searched.id]

    def test_its_code(self, searched: Experiment, tmp_path: Path) -> None:
        path = Path(searched.download_code(tmp_path / "out"))
        assert path == tmp_path / "out" / f"exp-{searched.id}_model_def.tar.gz"
        assert sorted(p.name for p in path.parent.iterdir()) == [path.name]
        with tarfile.open(path) as archive:
            assert "./model_def.py" in archive.getnames()
            assert {member.uname for member in archive.getmembers()} == {""}


class TestLists:
    def test_experiments(self, searched: Experiment) -> None:
        def ids(**wanted: object) -> list[int]:
            return [found.id for found in client.list_experiments(**wanted)]  # type: ignore[arg-type]

        assert ids() == ids(sort_by=ExperimentSortBy.NAME, order_by=OrderBy.DESCENDING) == [searched.id]
        assert ids(labels=["sdk"], states=[ExperimentState.COMPLETED], name="SDK", users=None) == [searched.id]
        assert ids(labels=["sdk", "other"]) == ids(states=[ExperimentState.ERROR]) == ids(users=["nobody else"]) == []
        assert ids(experiment_ids=[searched.id + 1]) == ids(name="other") == []
        for sort_by in ExperimentSortBy:
            assert ids(sort_by=sort_by) == [searched.id]

    def test_trials(self, searched: Experiment) -> None:
        trials = searched.list_trials()
        assert [trial.state for trial in trials] == [TrialState.COMPLETED] * 3
        assert [trial.steps_completed for trial in trials] == [16] * 3
        for sort_by in TrialSortBy:
            found = searched.list_trials(sort_by, OrderBy.DESC)
            assert {trial.id for trial in found} == {trial.id for trial in trials}
        best = [trial.best_validation for trial in searched.list_trials(TrialSortBy.BEST_VALIDATION_METRIC)]
        assert best == sorted(best)  # type: ignore[type-var]
        assert [trial.id for trial in searched.iter_trials(limit=2)] == [trial.id for trial in trials[:2]]
        best_trial = searched.best_trial()
        assert best_trial is not None
        assert best_trial.best_validation == searched.best_validation == best[0]
        assert client.get_trial(trials[1].id).hparams == trials[1].hparams
        assert trials[1].get_experiment().id == searched.id
        with pytest.warns(FutureWarning, match="use Experiment.list_trials"):
            assert len(searched.get_trials()) == 3

    def test_what_is_not_there_is_named(self, searched: Experiment) -> None:
        for call, name in (
            (lambda: client.get_experiment(99), "experiment 99"),
            (lambda: client.get_trial(99), "trial 99"),
            (lambda: client.get_checkpoint("../x"), r"checkpoint \.\./x"),
            (lambda: list(client.iter_trials_metrics([99])), "trial 99"),
            (lambda: client.get_model(99), "model 99"),
        ):
            with pytest.raises(StoreError, match=f"(?i){name}.* not found"):
                call()
        with pytest.raises(ValueError, match="Model 'net' not found"):
            client.get_model("net")


class TestMetrics:
    def test_row_by_row(self, searched: Experiment) -> None:
        trial = searched.list_trials()[0]
        rows = list(trial.iter_metrics("validation"))
        assert [row.steps_completed for row in rows] == [8, 16]
        assert {(row.group, row.trial_id, row.trial_run_id) for row in rows} == {("validation", trial.id, 1)}
        assert all(math.isfinite(row.metrics["validation_loss"]) for row in rows)
        assert rows[0].end_time <= rows[1].end_time
        assert {row.group for row in trial.iter_metrics()} >= {"training", "validation"}
        with pytest.warns(FutureWarning, match="steps_completed"):
            assert rows[0].total_batches == 8

    def test_of_several_trials(self, searched: Experiment) -> None:
        ids = [trial.id for trial in searched.list_trials()]
        rows = list(client.iter_trials_metrics(ids[::-1], "validation"))
        assert [row.trial_id for row in rows] == [trial_id for trial_id in ids[::-1] for _ in range(2)]
        with pytest.warns(FutureWarning, match="use iter_trials_metrics"):
            assert list(client.stream_trials_metrics(ids[::-1], "validation")) == rows
        with pytest.warns(FutureWarning):
            assert list(client.stream_trials_validation_metrics(ids[::-1])) == rows
        with pytest.warns(FutureWarning):
            assert {row.group for row in client.stream_trials_training_metrics(ids)} == {"training"}

    def test_the_summary_agrees_with_the_rows(self, searched: Experiment) -> None:
        trial = searched.list_trials()[0]
        values = [row.metrics["validation_loss"] for row in trial.iter_metrics("validation")]
        assert trial.summary_metrics["validation"]["validation_loss"] == {
            "count": 2,
            "sum": sum(values),
            "mean": sum(values) / 2,
            "min": min(values),
            "max": max(values),
            "last": values[-1],
            "type": "number",
        }

    def test_a_table(self, searched: Experiment) -> None:
        frame = searched.metrics_frame()
        assert list(frame.columns[:5]) == ["trial_id", "steps_completed", "group", "end_time", "rank"]
        trials = {trial.id: trial for trial in searched.list_trials()}
        rows = [
            (row.trial_id, row.steps_completed, row.metrics["validation_loss"])
            for trial in trials.values()
            for row in trial.iter_metrics("validation")
        ]
        assert (
            list(frame[["trial_id", "steps_completed", "validation_loss"]].itertuples(index=False, name=None)) == rows
        )
        assert list(frame["hparams.lr"]) == [trials[trial_id].hparams["lr"] for trial_id, *_ in rows]
        assert str(frame["end_time"].dtype).endswith("UTC]")
        best = frame.loc[frame["validation_loss"].idxmin()]
        assert best["validation_loss"] == searched.best_validation
        one = searched.list_trials()[1]
        assert len(one.metrics_frame()) == 2
        assert len(one.metrics_frame(None)) == len(list(one.iter_metrics()))
        assert list(one.metrics_frame("no such group").columns) == list(frame.columns[:5])

    def test_a_table_of_metrics_that_are_called_like_its_columns(self, home: Path) -> None:
        with open_run(hparams={"net": {"depth": 2, "widths": [1, 2]}}) as context:
            context.train.report_metrics("odd", 1, {"group": 1.0, "trial_id": math.nan, "list": [1], "a.b/c": "x"})
        (experiment,) = client.list_experiments()
        (row,) = experiment.metrics_frame("odd").to_dict("records")
        assert (row["group"], row["metrics.group"], row["trial_id"]) == ("odd", 1.0, experiment.list_trials()[0].id)
        assert math.isnan(row["metrics.trial_id"])
        assert (row["list"], row["a.b/c"]) == ("[1]", "x")
        assert (row["hparams.net.depth"], row["hparams.net.widths"]) == (2, "[1, 2]")

    def test_without_pandas_the_extra_is_named(self, searched: Experiment) -> None:
        run_program(
            "import sys\nsys.modules['pandas'] = None\nfrom determined.errors import MissingExtraError\n"
            "from determined.experimental import client\n"
            f"try: client.get_experiment({searched.id}).metrics_frame()\n"
            "except MissingExtraError as error: assert 'determined-pytorch[pandas]' in str(error), error\n"
            "else: raise SystemExit(1)"
        )


class TestLogs:
    def test_lines_and_their_filters(self, searched: Experiment) -> None:
        trial = searched.list_trials()[0]
        lines = list(trial.iter_logs())
        assert len(lines) > 1
        assert all("[rank=0]" in line for line in lines)
        assert list(trial.iter_logs(head=1)) == lines[:1]
        assert list(trial.iter_logs(tail=1)) == lines[-1:]
        assert list(trial.iter_logs(head=0)) == list(trial.iter_logs(tail=0)) == []
        assert list(trial.iter_logs(follow=True)) == lines  # the trial has ended
        assert list(trial.iter_logs(rank_ids=[1])) == list(trial.iter_logs(search_text="no such text")) == []
        levels = list(trial.iter_logs(min_level=LogLevel.INFO))
        assert levels
        assert set(levels) <= set(lines)
        assert list(trial.iter_logs(min_level=LogLevel.CRITICAL)) == []
        streams = [list(trial.iter_logs(stdtypes=[name])) for name in ("stdout", "stderr")]
        assert sum(map(len, streams)) == len(lines)

    def test_times_are_equal_in_every_form(self, searched: Experiment) -> None:
        trial = searched.list_trials()[0]
        everything = len(list(trial.iter_logs()))
        assert searched.end_time is not None
        after = searched.end_time + timedelta(minutes=1)
        elsewhere = after.astimezone(timezone(timedelta(hours=9)))
        for later in (after, after.timestamp(), after.isoformat(), elsewhere.isoformat(), after.replace(tzinfo=None)):
            assert len(list(trial.iter_logs(timestamp_before=later))) == everything, later
            assert list(trial.iter_logs(timestamp_after=later)) == [], later
        with pytest.raises(ValueError, match=r"timestamp_after must be a time like .*, got 'yesterday'"):
            trial.iter_logs(timestamp_after="yesterday")
        stamp = next(iter(trial.iter_logs())).partition("]")[0].strip("[")
        assert datetime.fromisoformat(stamp).utcoffset() == timedelta(0)

    def test_what_makes_no_sense_is_refused_at_once(self, searched: Experiment) -> None:
        trial = searched.list_trials()[0]
        with pytest.raises(ValueError, match="head must not be negative, got -1"):
            trial.iter_logs(head=-1)
        with pytest.raises(ValueError, match="follow, head and tail exclude each other"):
            trial.iter_logs(follow=True, tail=3)
        with pytest.warns(FutureWarning, match="use Trial.iter_logs"):
            assert list(trial.logs(head=1)) == list(trial.iter_logs(head=1))


class TestCheckpointLists:
    def test_the_best_first(self, searched: Experiment) -> None:
        found = searched.list_checkpoints()
        assert len(found) == 6
        losses = [one.training.validation_metrics["avgMetrics"]["validation_loss"] for one in found]
        assert losses == sorted(losses)
        assert {one.state for one in found} == {CheckpointState.COMPLETED}
        assert [one.uuid for one in searched.list_checkpoints(max_results=2)] == [one.uuid for one in found[:2]]
        with pytest.warns(FutureWarning, match=r"use Experiment.list_checkpoints\(max_results=1\)"):
            assert searched.top_checkpoint().uuid == found[0].uuid
        with pytest.warns(FutureWarning):
            assert searched.top_checkpoint("validation_loss", False).uuid == found[-1].uuid

    def test_orders(self, searched: Experiment) -> None:
        for sort_by in (*CheckpointSortBy, "validation_loss", "no such metric"):
            assert len(searched.list_checkpoints(sort_by, OrderBy.DESC)) == 6
        steps = [
            one.metadata["steps_completed"]
            for one in searched.list_checkpoints(CheckpointSortBy.BATCH_NUMBER, OrderBy.ASC)
        ]
        assert steps == [8, 8, 8, 16, 16, 16]
        with pytest.raises(AssertionError, match="together"):
            searched.list_checkpoints(sort_by="validation_loss")
        with pytest.warns(FutureWarning), pytest.raises(ValueError, match="by 'validation_loss', not by 'accuracy'"):
            searched.top_checkpoint("accuracy")
        with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="no checkpoint with a validation"):
            searched.top_checkpoint("accuracy", False)

    def test_a_negative_number_takes_nothing_from_the_end(self, searched: Experiment) -> None:
        for ask in (searched.list_checkpoints, searched.list_trials()[0].list_checkpoints):
            assert ask(max_results=0) == []
            with pytest.raises(ValueError, match="max_results must be 0 or more, got -1"):
                ask(max_results=-1)
        with pytest.raises(ValueError, match="limit must be 0 or more, got -2"):
            searched.list_trials(limit=-2)
        with pytest.warns(FutureWarning), pytest.raises(ValueError, match="limit must be 0 or more, got -1"):
            searched.top_n_checkpoints(-1)

    def test_the_best_of_each_of_the_best_trials(self, searched: Experiment) -> None:
        with pytest.warns(FutureWarning, match="top_n_checkpoints is deprecated"):
            top = searched.top_n_checkpoints(2)
        assert len({one.training.trial_id for one in top}) == 2
        for one in top:
            with pytest.warns(FutureWarning, match="Trial.top_checkpoint is deprecated"):
                assert client.get_trial(one.training.trial_id).top_checkpoint().uuid == one.uuid

    def test_of_a_trial(self, searched: Experiment) -> None:
        trial = searched.list_trials()[0]
        found = trial.list_checkpoints(CheckpointSortBy.BATCH_NUMBER, OrderBy.DESC)
        assert [one.metadata["steps_completed"] for one in found] == [16, 8]
        for selected, wanted in (
            ({"latest": True}, found[0]),
            ({"uuid": found[1].uuid}, found[1]),
            ({"best": True}, trial.list_checkpoints()[0]),
        ):
            with pytest.warns(FutureWarning, match="select_checkpoint is deprecated: use Trial.list_checkpoints"):
                assert trial.select_checkpoint(**selected).uuid == wanted.uuid
        for chosen in ({}, {"latest": True, "best": True}, {"latest": True, "sort_by": "x"}, {"uuid": "other"}):
            with pytest.warns(FutureWarning), pytest.raises(AssertionError):
                trial.select_checkpoint(**chosen)
        with pytest.warns(FutureWarning, match="use Trial.list_checkpoints"):
            assert len(trial.get_checkpoints()) == 2

    def test_one_by_its_id(self, searched: Experiment) -> None:
        best = searched.list_checkpoints(max_results=1)[0]
        found = client.get_checkpoint(best.uuid)
        assert (found.uuid, found.metadata, found.training) == (best.uuid, best.metadata, best.training)
        assert found.training.experiment_id == searched.id
        assert found.training.hparams == client.get_trial(found.training.trial_id).hparams
        assert found.resources["metadata.json"] > 0
        assert found.allocation_id.startswith(f"{searched.id}.")
        assert found.task_id == found.allocation_id.rpartition(".")[0]
        assert found.report_time is not None


class TestTheWayIn:
    @pytest.mark.parametrize("master", ["http://localhost:8080", "https://det.example.org", "localhost:8080", "host"])
    def test_login_is_accepted_and_explained(
        self, searched: Experiment, caplog: pytest.LogCaptureFixture, master: str
    ) -> None:
        client._default = None
        with caplog.at_level("INFO", "determined"):
            client.login(master, user="me", password="s3cr3t")
        assert caplog.messages == ["there is no master to log in to: experiments are stored in the local store"]
        assert client.get_experiment(searched.id).name == searched.name
        with pytest.raises(ValueError, match="must be the first call"):
            client.login()

    def test_another_store(self, searched: Experiment, tmp_path: Path) -> None:
        with Determined(str(tmp_path / "other.sqlite")) as other:
            assert other.list_experiments() == []
            assert len(client.list_experiments()) == 1
        with pytest.raises(StoreError, match="cannot name a store"):
            Determined("ray://somewhere")

    def test_threads_may_ask_at_once(self, searched: Experiment) -> None:
        with ThreadPoolExecutor(8) as pool:
            names = list(pool.map(lambda _: client.get_experiment(searched.id).name, range(200)))
        assert set(names) == {"sdk search"}

    def test_a_forked_child_may_ask_as_well(self, searched: Experiment) -> None:
        run_program(
            "import os\nfrom determined.experimental import client\n"
            f"def works(): return client.get_experiment({searched.id}).name == 'sdk search'\n"
            "assert works()\nchild = os.fork()\nif child == 0: os._exit(0 if works() else 1)\n"
            "assert os.waitpid(child, 0)[1] == 0 and works()"
        )

    def test_old_names(self) -> None:
        with pytest.warns(FutureWarning, match="ExperimentReference is deprecated"):
            from determined.experimental import ExperimentReference
        assert ExperimentReference is Experiment
        with pytest.warns(FutureWarning, match="client.OrderBy"):
            assert client.CheckpointOrderBy is OrderBy
        with pytest.raises(AttributeError, match="no attribute 'create_user'"):
            _ = client.create_user

    def test_the_import_is_light(self) -> None:
        run_program(
            "import sys\nfrom determined.experimental import client, Determined\nDetermined().list_experiments()\n"
            "heavy = {'torch', 'numpy', 'pydantic', 'psutil', 'pandas'} & set(sys.modules)\nassert not heavy, heavy"
        )

    def test_states_and_orders_are_json_by_their_values(self) -> None:
        assert json.dumps([ExperimentState.COMPLETED.value, OrderBy.ASC.value]) == '["COMPLETED", "ASC"]'
        assert OrderBy["ASCENDING"] is OrderBy["ASC"]


def run_program(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_report_says_of_which_rank_it_is() -> None:
    with opened() as store:
        attempt = begin(store)
        rows = [metric(attempt, "training", 1, {"loss": rank, f"of {rank}": 1}) for rank in (1, 0)]
        store.write([row._replace(rank=1 - place) for place, row in enumerate(rows)])
    with Determined() as determined:
        found = list(determined.get_trial(attempt.trial_id).iter_metrics("training"))
    assert [(row.rank, row.metrics) for row in found] == [(0, {"loss": 0, "of 0": 1}), (1, {"of 1": 1})]
