"""Experiments with a startup hook: it runs once, before all trials, and they get what it installed and exported."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from determined.engines.local import LocalEngine
from determined.errors import StartupHookError
from determined.experiment.deletion import delete_experiment
from determined.experiment.runner.run import run_experiment
from determined.store.open import checked_place
from tests.experiment.conftest import MakeSearch
from tests.experiment.inside import create, opened, outcome, run
from tests.helpers.waiting import wait_until

# The trial class can only be imported, and the script only be found, after the hook.
HOOK = """
echo run >> {count}
echo "the hook runs with $MY_TOKEN"
site=$(echo "$VIRTUAL_ENV"/lib/python*/site-packages)
echo 'WHERE = __file__' > "$site"/installed_by_hook.py
export HOOKED="by $PLAIN" MY_TOKEN="$MY_TOKEN-and-more" DATA=$PWD/data
mkdir data && echo 1 > data/file && ln -s /proc data/large
mv program src && cd src
"""
PROGRAM = """
import json, os, sys
import installed_by_hook
import determined as det
from determined import core

def main():
    shown = {
        "executable": sys.executable, "module": installed_by_hook.WHERE, "directory": os.getcwd(),
        "variables": {name: os.environ.get(name) for name in ("HOOKED", "MY_TOKEN", "DATA", "PLAIN", "DET_TRIAL_ID")},
        "link": os.readlink("../data/large"),
    }
    open("../told.json", "w").write(json.dumps(shown))
    with core.init() as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
    print("the trial knows", os.environ["MY_TOKEN"], flush=True)
    if det.get_cluster_info().trial.hparams["lr"] == 2:
        raise ValueError("failed with " + os.environ["MY_TOKEN"])

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    """An engine for each test: it starts a new warm process with the interpreter of the hook's environment."""
    with LocalEngine(2) as made:
        yield made


def model(directory: Path, hook: str | None, program: str = PROGRAM) -> Path:
    (directory / "model" / "program").mkdir(parents=True)
    (directory / "model" / "program" / "train.py").write_text(program)
    if hook is not None:
        (directory / "model" / "startup-hook.sh").write_text(hook)
    return directory / "model"


def config(**fields: Any) -> dict[str, Any]:
    return {
        "name": "hooked",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "categorical", "vals": [1, 2]}},
        "searcher": {"name": "grid", "metric": "loss"},
        "environment": {"environment_variables": ["PLAIN=a value", "MY_TOKEN=secret-value"]},
        "max_restarts": 0,
        **fields,
    }


def warm_processes() -> set[int]:
    """Return those of all engines of this process."""
    return {one.pid for one in psutil.Process().children() if "determined.engines.warm.server" in one.cmdline()[-1]}


def test_all_trials_get_what_it_left(engine: LocalEngine, tmp_path: Path) -> None:
    found = run(engine, model(tmp_path, HOOK.format(count=tmp_path / "count")), config())
    assert found.experiment.state == "COMPLETED", "\n".join(found.logs[0])
    assert (tmp_path / "count").read_text() == "run\n"
    root = Path(found.experiment.code_dir).parent
    for number, trial in enumerate(found.trials):
        work = found.work_dir(number)
        shown = json.loads((work / "told.json").read_text())
        assert shown == {
            "executable": str(root / "startup-hook" / "venv" / "bin" / "python"),
            "module": shown["module"],
            "directory": str(work / "src"),
            "variables": {
                "HOOKED": "by a value",
                "MY_TOKEN": "secret-value-and-more",
                "DATA": str(work / "data"),
                "PLAIN": "a value",
                "DET_TRIAL_ID": str(trial.id),
            },
            "link": "/proc",
        }
        assert Path(shown["module"]).is_relative_to(root / "startup-hook" / "venv")
    first, second = (lines for _, lines in sorted(found.logs.items()))
    assert first.count("the hook runs with ********") + second.count("the hook runs with ********") == 1
    assert "the trial knows ********" in first
    assert "secret-value" not in str(found.logs)
    assert [trial.state for trial in found.trials] == ["COMPLETED", "ERROR"]
    assert (found.trials[1].reason or "").startswith("ValueError: failed with ******** (train.py, line ")
    assert not (root / "code" / "data").exists()  # a fork inherits the code of the warm process
    with opened() as store:
        delete_experiment(store, found.experiment.id)
    assert not root.exists()


def test_without_a_hook_nothing_is_built(engine: LocalEngine, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"entrypoint": "python3 program/train.py", "hyperparameters": {}}
    fields["searcher"] = {"name": "single", "metric": "loss"}
    directory = model(tmp_path, None, "print('no hook')\n")
    first = run(engine, directory, config(**fields))
    warm = warm_processes()
    (directory / "startup-hook.sh").write_text("exit 1\n")
    second = run(engine, directory, config(**fields, startup_hook=False))
    assert warm_processes() == warm
    for found in (first, second):
        assert found.experiment.state == "COMPLETED", "\n".join(found.logs[0])
        assert not (Path(found.experiment.code_dir).parent / "startup-hook").exists()


def test_a_trial_class_is_imported_after_the_hook(engine: LocalEngine, tmp_path: Path) -> None:
    directory = model(tmp_path, 'echo "class T: pass" > made_by_hook.py\n')
    for used in (engine, None):
        with opened() as store:
            from determined.config.experiment import load_experiment
            from determined.experiment.creation.create import create_experiment

            loaded = load_experiment(config(entrypoint="made_by_hook:T"))
            assert create_experiment(loaded, directory, store, engine=used).experiment_id


def test_a_failing_hook_creates_nothing(engine: LocalEngine, tmp_path: Path, data_home: Path) -> None:
    with pytest.raises(StartupHookError, match="exit code 9: no such package"):
        create(engine, model(tmp_path, "echo no such package\nexit 9\n"), config())
    with opened() as store:
        assert store.experiments.list() == []
    assert list((data_home / "determined" / "experiments").iterdir()) == []


def test_a_hook_that_fails_later_pauses_the_experiment(engine: LocalEngine, tmp_path: Path) -> None:
    """As when another interpreter runs it: no trial is started or lost, and `activate` tries again."""
    number = create(engine, model(tmp_path, HOOK.format(count=tmp_path / "count")), config())
    hook = Path(outcome(number).experiment.code_dir) / "startup-hook.sh"
    good = hook.read_text()
    hook.write_text("echo the server is away\nexit 7\n")
    ended = run_experiment(checked_place(), number, engine=engine)
    found = outcome(number)
    assert (ended.state, found.experiment.state) == ("PAUSED", "PAUSED")
    assert found.experiment.reason == "startup-hook.sh failed with exit code 7: the server is away"
    assert [(trial.state, trial.runs) for trial in found.trials] == [("PAUSED", 0)] * 2
    hook.write_text(good)
    state = run_experiment(checked_place(), number, engine=engine).state
    assert state == "COMPLETED", "\n".join(outcome(number).logs[0])
    assert not outcome(number).experiment.reason
    assert (tmp_path / "count").read_text() == "run\nrun\n"


def test_killed_interrupted_and_canceled_during_the_hook(make_search: MakeSearch, tmp_path: Path) -> None:
    search = make_search("steady", config())
    slow = f"echo $$ > {tmp_path}/pid\n[ -e {tmp_path}/quick ] || sleep 600\n"
    search.model_dir = model(tmp_path, None)
    experiment = search.create("--config", "entrypoint=python3 program/train.py")
    (files,) = search.home.glob("determined/experiments/*")
    (files / "code" / "startup-hook.sh").write_text(slow + HOOK.format(count=tmp_path / "count"))
    (files / "config.json").write_text((files / "config.json").read_text().replace("program/train.py", "train.py"))

    def started() -> Any:
        (tmp_path / "pid").unlink(missing_ok=True)
        runner = search.start(experiment)
        wait_until(lambda: (tmp_path / "pid").exists() or runner.poll() is not None)
        assert runner.poll() is None, search.said.read_text()
        return runner

    killed = started()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    search.wait_for_exits()
    interrupted = started()  # the environment before contains nothing any more
    interrupted.send_signal(signal.SIGINT)
    assert interrupted.wait(30) == 130
    search.wait_for_exits()
    with search.opened() as store:
        assert store.experiments.get(experiment).state == "PAUSED"
    paused = started()
    search.det("experiment", "pause", str(experiment))
    assert paused.wait(30) == 1
    (tmp_path / "quick").touch()
    search.activate(experiment)
    with search.opened() as store:
        assert store.experiments.get(experiment).state == "COMPLETED"
    assert (tmp_path / "count").read_text() == "run\n"
