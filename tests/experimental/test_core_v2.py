"""Programs that open their run themselves, as separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined import core
from determined.experimental import Determined, client, core_v2, unmanaged
from determined.experimental.client import ExperimentState, TrialState
from determined.store.open import open_store
from tests.helpers import warm
from tests.helpers.ranks import run_ranks

BEGIN = """
import logging, os, signal, sys, threading, time
import determined as det
logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)
from determined.experimental import core_v2
"""
NAMED = 'core_v2.init(config=core_v2.Config(external_experiment_id="search/1", external_trial_id="a"))\n'


def run(text: str, *, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = warm.run([sys.executable, "-c", BEGIN + text], capture_output=True, text=True, timeout=60)
    assert done.returncode == expect, done.stderr
    return done


@pytest.fixture
def closed() -> Iterator[None]:
    yield
    core_v2.close()


def test_a_run_is_recorded_with_its_log_and_its_end(home: Path) -> None:
    done = run(
        """
config = core_v2.Config(
    name="by itself", hparams={"lr": 0.5, "api_token": "s3cr3t"}, data={"rows": 3}, description="why",
    notes="at length", labels=["x"], workspace="w", project="p",
    searcher={"metric": "accuracy", "smaller_is_better": False},
)
core_v2.init(config=config)
assert core_v2.info.user_data == {"rows": 3} and core_v2.info.trial.hparams["api_token"] == "s3cr3t"
assert det.get_cluster_info() is core_v2.info and core_v2.distributed.size == 1
print("to the terminal ", end=""); print("and\\nto the log 😀")
logging.warning("with a level")
core_v2.train.report_validation_metrics(4, {"accuracy": 0.25})
core_v2.train.report_validation_metrics(8, {"accuracy": 0.75})
print(core_v2.url_reverse_webui_exp_view())
print("no end of line", end="")
"""
    )
    assert done.stdout == "to the terminal and\nto the log 😀\ndet experiment describe 1\nno end of line"
    (experiment,) = client.list_experiments(labels=["x"])
    assert (experiment.name, experiment.description, experiment.state) == (
        "by itself",
        "why",
        ExperimentState.COMPLETED,
    )
    assert experiment.notes == "at length"
    assert experiment.best_validation == 0.75
    assert (experiment.config["workspace"], experiment.config["data"]) == ("w", {"rows": 3})
    (trial,) = experiment.list_trials()
    assert trial.hparams == {"lr": 0.5, "api_token": "********"}
    assert [line.partition("[rank=0] ")[2] for line in trial.iter_logs(stdtypes=["stdout"])] == done.stdout.split("\n")
    assert any("with a level" in line for line in trial.iter_logs(min_level=client.LogLevel.WARNING))


@pytest.mark.parametrize(
    ("last_words", "code", "state", "logged"),
    [
        ("raise ValueError('oh')", 1, "ERROR", "ValueError: oh"),
        ("sys.exit(3)", 3, "ERROR", ""),
        ("sys.exit('said at the end')", 1, "ERROR", ""),
        ("sys.exit()", 0, "COMPLETED", ""),
        ("threading.Thread(target=sys.exit, args=(3,)).start()", 0, "COMPLETED", ""),
        ("raise det.InvalidHP('too large')", 1, "COMPLETED", "InvalidHP: too large"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, "ERROR", ""),
        ("core_v2.close(); sys.exit(4)", 4, "COMPLETED", ""),
        (
            "child = os.fork(); print('by', child)\nif child == 0: sys.exit(3)\nos.waitpid(child, 0)",
            0,
            "COMPLETED",
            "by ",
        ),
    ],
)
def test_how_a_program_ends(home: Path, last_words: str, code: int, state: str, logged: str) -> None:
    run(f"core_v2.init()\n{last_words}", expect=code)
    (experiment,) = client.list_experiments()
    assert experiment.state is ExperimentState[state]
    lines = list(experiment.list_trials()[0].iter_logs())
    assert not logged or sum(logged in line for line in lines) == 1, lines


def test_the_same_names_continue_from_the_latest_checkpoint(home: Path) -> None:
    first = run(
        NAMED + "assert core_v2.info.latest_checkpoint is None\n"
        "for step in (1, 2):\n"
        "    core_v2.train.report_training_metrics(step, {'loss': 1 / step})\n"
        "    with core_v2.checkpoint.store_path({'steps_completed': step}) as (path, uuid):\n"
        "        (path / 'weights').write_text(str(step))\n"
        "core_v2.train.report_training_metrics(3, {'loss': 0.0})\n"
        "print(uuid, core_v2.info.trial.trial_seed, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
        expect=-9,
    )
    again = run(
        NAMED + "trial = core_v2.info.trial\nassert (trial._steps_completed, trial._trial_run_id) == (2, 2)\n"
        "with core_v2.checkpoint.restore_path(core_v2.info.latest_checkpoint) as path:\n"
        "    assert (path / 'weights').read_text() == '2'\n"
        "core_v2.train.report_training_metrics(3, {'loss': 0.25})\n"
        "print(core_v2.info.latest_checkpoint, trial.trial_seed)"
    )
    assert again.stdout == first.stdout != "", "the checkpoint, and the seed"
    other = NAMED.replace('"a"', '"b"')
    run(other + "assert core_v2.info.latest_checkpoint is None")
    (experiment,) = client.list_experiments()
    trials = experiment.list_trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETED] * 2
    assert (experiment.external_id, [trial.external_id for trial in trials]) == ("search/1", ["a", "b"])
    losses = {row.steps_completed: row.metrics["loss"] for row in trials[0].iter_metrics("training")}
    assert losses == {1: 1.0, 2: 0.5, 3: 0.25}


def test_a_running_trial_is_not_taken_over(home: Path, closed: None) -> None:
    core_v2.init(config=core_v2.Config(external_experiment_id="search/1", external_trial_id="a"))
    refused = run(NAMED, expect=1)
    assert f"trial 1, which is 'a' of 'search/1', is running in process {os.getpid()} on" in refused.stderr
    client.get_experiment(1).pause()
    store = open_store()
    try:
        assert [request.kind for request in store.requests(1)] == ["pause"], "and it can be steered"
    finally:
        store.close()


def test_as_a_context(home: Path) -> None:
    def work() -> None:
        with core_v2.init_context(config=core_v2.Config(name="inside")) as context:
            print("printed")  # noqa: T201
            assert context.info.trial.trial_id == 1
            raise ValueError("oh")

    with pytest.raises(ValueError, match="oh"):
        work()
    print("outside")  # noqa: T201
    (experiment,) = client.list_experiments()
    assert experiment.state is ExperimentState.ERROR
    lines = [line.partition("[rank=0] ")[2] for line in experiment.list_trials()[0].iter_logs()]
    assert (lines[0], lines[-1]) == ("printed", "ValueError: oh")


def test_parts_exist_from_init_to_close(home: Path, closed: None) -> None:
    with pytest.raises(AttributeError, match=r"core_v2\.train exists only between core_v2\.init\(\) and"):
        _ = core_v2.train
    with pytest.raises(RuntimeError, match=r"there is no open run: call core_v2\.init\(\) first"):
        core_v2.url_reverse_webui_exp_view()
    core_v2.close()
    core_v2.init()
    assert isinstance(core_v2.train, core.TrainContext)
    with pytest.raises(RuntimeError, match=r"was already called: close\(\) ends that run"):
        core_v2.init()
    core_v2.close()
    assert not hasattr(core_v2, "train")
    core_v2.init()
    assert core_v2.info.trial.trial_id == 2


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"name": 3}, TypeError, "Config.name must be a string, got 3"),
        ({"hparams": []}, TypeError, "Config.hparams must be a dict"),
        ({"labels": "one"}, TypeError, "Config.labels must be a list of strings, got 'one'"),
        ({"notes": 3}, TypeError, "Config.notes must be a string, got 3"),
        ({"labels": [1]}, TypeError, "Config.labels must be a list of strings"),
        ({"external_experiment_id": ""}, ValueError, "Config.external_experiment_id must not be empty"),
        ({"external_trial_id": "a"}, ValueError, "Config.external_trial_id requires an external_experiment_id"),
    ],
)
def test_what_makes_no_sense_is_named(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        core_v2.Config(**given)


def test_the_arguments_of_release_0_25_open_the_same_run(home: Path, closed: None) -> None:
    core_v2.init(
        defaults=core_v2.DefaultConfig(name="first", hparams={"lr": 0.5}, labels=["x"], searcher={"metric": "loss"}),
        unmanaged=core_v2.UnmanagedConfig(
            workspace="w", project="p", external_experiment_id="search", external_trial_id="a"
        ),
        client=Determined("https://a-master:8080"),
        distributed=None,
        preempt_mode=core_v2.PreemptMode.WorkersAskChief,
        tensorboard_mode=core_v2.TensorboardMode.MANUAL,
    )
    assert core_v2.info.trial.hparams == {"lr": 0.5}
    assert isinstance(core_v2.distributed, core_v2.DistributedContext)
    core_v2.close()
    (experiment,) = client.list_experiments(labels=["x"])
    assert (experiment.name, experiment.external_id) == ("first", "search")
    assert (experiment.config["workspace"], experiment.config["project"]) == ("w", "p")
    assert [trial.external_id for trial in experiment.list_trials()] == ["a"]


def test_the_store_of_a_client_is_used(home: Path, tmp_path: Path, closed: None) -> None:
    elsewhere = Determined(str(tmp_path / "other.sqlite"))
    core_v2.init(config=core_v2.Config(name="there"), client=elsewhere)
    core_v2.train.report_validation_metrics(1, {"loss": 0.5})
    print("a line")  # noqa: T201
    core_v2.close()
    (experiment,) = elsewhere.list_experiments()
    (trial,) = experiment.list_trials()
    assert [row.metrics for row in trial.iter_metrics("validation")] == [{"loss": 0.5}]
    assert [line.partition("[rank=0] ")[2] for line in trial.iter_logs(stdtypes=["stdout"])] == ["a line"]
    assert Determined().list_experiments() == []
    elsewhere.close()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"defaults": core_v2.Config()}, TypeError, r"defaults must be a core_v2\.DefaultConfig, got Config"),
        ({"unmanaged": "a"}, TypeError, r"unmanaged must be a core_v2\.UnmanagedConfig, got 'a'"),
        (
            {"config": core_v2.Config(), "defaults": core_v2.DefaultConfig()},
            ValueError,
            "either config or defaults and unmanaged",
        ),
        ({"client": "https://a-master:8080"}, TypeError, r"client must be a determined\.experimental\.Determined"),
    ],
)
def test_arguments_that_do_not_fit_together(
    home: Path, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        core_v2.init(**given)
    assert client.list_experiments() == []


def test_the_module_of_release_0_23(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    determined = Determined()
    text = "name: mine\nlabels: [x]\nhyperparameters: {lr: 0.5}\nmax_restarts: 0\n"
    info = unmanaged.create_unmanaged_cluster_info(determined, config_text=text)
    with unmanaged.init(unmanaged_info=info, client=determined) as context:
        assert context.info.trial.hparams == {"lr": 0.5}
        assert unmanaged.url_reverse_webui_exp_view(determined, context.info.trial.experiment_id) == (
            "det experiment describe 1"
        )
    assert "the configuration fields max_restarts have no effect" in caplog.text
    (experiment,) = determined.list_experiments(labels=["x"])
    assert (experiment.name, experiment.state) == ("mine", ExperimentState.COMPLETED)
    with pytest.raises(AttributeError, match=r"has no attribute 'create_unmanaged_trial': use init"):
        unmanaged.create_unmanaged_trial  # noqa: B018
    determined.close()


def rank_of_a_run() -> list[int]:
    distributed = core.DistributedContext.from_torch_distributed()
    with core_v2.init_context(distributed=distributed) as context:
        print("from rank", distributed.rank)  # noqa: T201
        return [context.info.trial.trial_id, context.info.trial._trial_run_id]


def test_what_is_no_configuration_is_named(home: Path) -> None:
    with pytest.raises(TypeError, match=r"config must be a core_v2\.Config, got 'mine'"):
        core_v2.init(config="mine")  # type: ignore[arg-type]
    assert client.list_experiments() == []


def test_all_ranks_are_one_run(home: Path) -> None:
    assert [result.value for result in run_ranks(rank_of_a_run, n=2)] == [[1, 1], [1, 1]]
    trial = client.get_trial(1)
    assert trial.state is TrialState.COMPLETED
    for rank in (0, 1):
        (line,) = trial.iter_logs(rank_ids=[rank], stdtypes=["stdout"])
        assert line.endswith(f"[rank={rank}] from rank {rank}")


def test_secrets_of_the_environment_are_not_in_the_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "correct-horse")
    done = run(NAMED + "print('log in', os.environ['DB_PASSWORD'])\nprint('https://me:battery@host')\ncore_v2.close()")
    assert "log in correct-horse" in done.stdout, "the terminal is not a log of ours"
    store = open_store()
    texts = [line.text for line in store.logs(1, 0, 100)]
    store.close()
    assert "log in ********" in texts
    assert "https://me:********@host" in texts
