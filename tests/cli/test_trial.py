"""`det trial` on a search that ran."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from determined.store.store import Store
from tests.cli.det_command import DET, det, det_json, det_ok, head_of, rows_of, run_det
from tests.cli.filling import Steps, add_trials, lead, new_experiment, work
from tests.cli.projects import PROGRAM
from tests.cli.searched import CONFIG, Searched
from tests.helpers.searches import Search

TRIAL = ["Experiment ID", "State", "H-Params", "Summary Metrics", "Started", "Ended"]
WORKLOADS = [
    "# of Batches",
    "Report Time",
    "Checkpoint",
    "Checkpoint UUID",
    "Checkpoint Metadata",
    "Validation Metrics",
]


@pytest.mark.parametrize(
    "words", [["describe", "7"], ["logs", "7"], ["download", "7", "--best"], ["kill", "7"], ["support-bundle", "7"]]
)
def test_unknown_trials(words: list[str]) -> None:
    for short in ("t", "trial"):
        result = det(short, *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "Trial 7 not found.\n"


def test_describe(searched: Searched) -> None:
    first, second = det_ok("t", "describe", "1").split("\n\nWorkloads\n")
    assert head_of(first) == TRIAL
    (row,) = rows_of(first)
    assert (row["Experiment ID"], row["State"]) == ("1", "COMPLETED")
    assert json.loads(row["Summary Metrics"])["validation"]["accuracy"]["max"] == 16
    assert head_of(second) == WORKLOADS
    rows = rows_of(second)
    assert [row["# of Batches"] for row in rows] == ["4", "8", "12", "16"]
    assert rows[1]["Checkpoint UUID"] == searched.checkpoint(1, 8).checkpoint_id
    assert rows[1]["Checkpoint"] == "COMPLETED"
    assert json.loads(rows[1]["Validation Metrics"])["accuracy"] == 8

    with_metrics = det_ok("t", "describe", "1", "--metrics").split("\n\nWorkloads\n")[1]
    assert head_of(with_metrics) == [*WORKLOADS, "Workload Metrics"]
    assert json.loads(rows_of(with_metrics)[0]["Workload Metrics"])["loss"] == 0.0

    plain = det_json("t", "describe", "1", "--metrics", "--limit", "1", "--offset", "2")
    assert plain["summary_metrics"]["validation"]["loss"]["count"] == 4
    (workload,) = plain["workloads"]
    assert (workload["batches"], workload["validation"]["metrics"]["accuracy"]) == (12, 12)
    assert len(det_ok("t", "describe", "1", "--csv").split("\n\n")) == 2


def test_metrics_summed_up(searched: Searched) -> None:
    del searched
    rows = {(row["Group"], row["Metric"]): row for row in rows_of(det_ok("t", "describe", "1", "--metrics-summary"))}
    accuracy = rows["validation", "accuracy"]
    assert [accuracy[name] for name in ("count", "last", "min", "max", "mean", "sum", "type")] == [
        "4", "16", "4", "16", "10", "40", "number",
    ]  # fmt: skip
    assert det_json("t", "describe", "1", "--metrics-summary")["training"]["loss"]["max"] == 0.0
    assert det("t", "describe", "1", "--metrics-summary", "--metrics").exit_code == 2


class TestLogs:
    def lines(self, *arguments: str) -> list[str]:
        result = det("t", "logs", "1", *arguments)
        assert result.exit_code == 0, result.output
        return [line.partition("[rank=0] ")[2] for line in result.stdout.splitlines()]

    def test_filters(self, searched: Searched) -> None:
        del searched
        begins, odd = "INFO: [1] root: begins", "WARNING: [1] root: looks odd"
        assert sorted(self.lines()) == [begins, odd]
        assert self.lines("--level", "warning") == [odd]
        assert self.lines("--stdtype", "stderr") == [odd]
        assert sorted(self.lines("--stdtype", "stderr", "--stdtype", "stdout")) == [begins, odd]
        assert self.lines("--stdtype", "stdout", "--tail", "1") == [begins]
        assert self.lines("--rank-id", "3") == []
        assert len(self.lines("--head", "1")) == len(self.lines("--tail", "1")) == 1
        assert self.lines("--timestamp-before", "2020-01-01T00:00:00Z") == []
        assert self.lines("--timestamp-after", "2999-01-01T00:00:00+02:00") == []
        assert len(self.lines("--timestamp-after", "2020-01-01", "--timestamp-before", "2999-01-01")) == 2
        assert sorted(self.lines("--follow")) == [begins, odd]  # the trial has ended

    def test_json_and_what_there_is_to_say(self, searched: Searched) -> None:
        del searched
        plain = [json.loads(line) for line in det_ok("t", "logs", "2", "--json").splitlines()]
        assert {(line["trial_id"], line["stream"]) for line in plain} == {(2, "stdout"), (2, "stderr")}
        assert det("t", "logs", "2").stderr == "To see it again: det trial logs 2\n"
        explained = det("t", "logs", "2", "--container-id", "a", "--source", "b", "--agent-id", "c").stderr
        assert explained.count("has no effect") == 3

    @pytest.mark.parametrize(
        "words", [["--timestamp-before", "yesterday"], ["--head", "1", "--tail", "1"], ["--head", "1", "-f"]]
    )
    def test_usage(self, words: list[str]) -> None:
        assert det("t", "logs", "1", *words).exit_code == 2


class TestDownload:
    @pytest.mark.parametrize(
        ("words", "batches"),
        [
            (["--best"], 8),
            (["--latest"], 16),
            (["--best", "--sort-by", "accuracy", "--smaller-is-better", "false"], 16),
            (["--best", "--sort-by", "accuracy", "--smaller-is-better", "true"], 4),
            (["--best", "--sort-by", "loss"], 8),
        ],
    )
    def test_the_one_that_was_asked_for(self, searched: Searched, words: list[str], batches: int) -> None:
        wanted = searched.checkpoint(2, batches).checkpoint_id
        plain = det_json("t", "download", "2", *words)
        assert (plain["uuid"], plain["path"]) == (wanted, f"checkpoints/{wanted}")
        assert Path(plain["path"], "weights").read_text() == str(batches)

    def test_by_uuid_and_with_one_checkpoint_alone(self, searched: Searched) -> None:
        row = searched.checkpoint(1, 12)
        assert det_ok("t", "download", "1", "--uuid", row.checkpoint_id, "-o", "a/b", "-q") == "a/b\n"
        assert Path("a/b/weights").read_text() == "12"
        for batches in (4, 8, 16):
            det("c", "delete", searched.checkpoint(1, batches).checkpoint_id, "--yes")
        for word in ("--best", "--latest"):
            assert det_json("t", "download", "1", word, "-o", word.strip("-"))["uuid"] == row.checkpoint_id
        printed = det_ok("t", "download", "1", "--best")
        assert rows_of(printed.partition("\n\n")[0])[0]["Checkpoint UUID"] == row.checkpoint_id
        assert f"Local checkpoint path: checkpoints/{row.checkpoint_id}" in printed
        det("c", "delete", row.checkpoint_id, "--yes")
        assert "trial 1: it has no checkpoint: all were deleted" in det("t", "download", "1", "--latest").stderr
        assert (
            f"checkpoint {row.checkpoint_id} is DELETED"
            in det("t", "download", "1", "--uuid", row.checkpoint_id, "-o", "new").stderr
        )

    def test_what_is_refused(self, searched: Searched) -> None:
        for words in ([], ["--best", "--latest"], ["--latest", "--sort-by", "x"], ["--best", "--sort-by", "accuracy"]):
            assert det("t", "download", "1", *words).exit_code == 2
        assert "has no checkpoint '../x'" in det("t", "download", "1", "--uuid", "../x").stderr
        other = searched.checkpoint(2, 8).checkpoint_id
        assert f"trial 1: it has no checkpoint '{other}'" in det("t", "download", "1", "--uuid", other).stderr
        Path("mine").mkdir()
        Path("mine", "notes").write_text("keep")
        refused = det("t", "download", "1", "--best", "-o", "mine")
        assert refused.exit_code == 1
        assert "mine holds something else" in refused.stderr
        assert [path.name for path in Path("mine").iterdir()] == ["notes"]
        nothing = det("t", "download", "1", "--best", "--sort-by", "none", "--smaller-is-better", "true")
        assert "no checkpoint has a number for that validation metric" in nothing.stderr


def test_kill(searched: Searched, store: Store) -> None:
    del searched
    assert "Cannot kill trial 1: it has already ended (COMPLETED)" in det("t", "kill", "1").stderr
    experiment = new_experiment(store)
    lease = lead(store, experiment)
    (trial,) = add_trials(store, lease, [{}])
    work(store, lease, trial, Steps())
    assert f"Killing trial {trial}; the runner of experiment {experiment}" in det_ok("t", "kill", str(trial))
    (request,) = store.experiments.requests(experiment)
    assert (request.kind, request.trial_id) == ("kill", trial)
    assert det_json("t", "kill", str(trial))["id"] == trial


def test_a_trial_that_is_followed_and_killed(tmp_path: Path) -> None:
    """Its follower ends with it; the search continues."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(PROGRAM)
    config = {**CONFIG, "hyperparameters": {"lr": 0.3, "seconds": 0.5}}
    search = Search(tmp_path / "home", model, {**config, "searcher": {**CONFIG["searcher"], "max_trials": 50}})
    experiment = search.create()
    runner = search.start(experiment)
    try:
        search.wait_for(lambda store: any(row.state == "RUNNING" for row in store.experiments.trials(experiment)))
        with search.opened() as store:
            trial = next(row.id for row in store.experiments.trials(experiment) if row.state == "RUNNING")
        command = [*DET, "t", "logs", str(trial), "-f"]
        with subprocess.Popen(command, env=search.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline().endswith(b"hello from the trial\n")
            assert "; the runner of experiment" in search.det("t", "kill", str(trial)).stdout
            _, said = follower.communicate(timeout=30)
        assert (follower.returncode, said) == (0, f"To see it again: det trial logs {trial}\n".encode())
        with search.opened() as store:
            assert store.experiments.trial(trial).state == "CANCELED"
            assert store.experiments.get(experiment).state == "ACTIVE"
        search.det("e", "kill", str(experiment))
        assert runner.wait(timeout=30) == 1
    finally:
        if runner.poll() is None:
            runner.kill()
            runner.wait()


def test_as_a_process(searched: Searched) -> None:
    del searched
    done = run_det("trial", "describe", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["id"] == 1
