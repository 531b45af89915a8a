"""`det experiment fork`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from determined.config.experiment import load_experiment
from determined.experiment.creation.create import create_experiment
from determined.experiment.files import ExperimentFiles
from determined.store.store import Store
from tests.cli.det_command import det, det_json, det_ok, run_det
from tests.cli.filling import new_experiment
from tests.cli.projects import CONFIG, PROGRAM
from tests.cli.searched import Searched
from tests.helpers.records import opened


def config_of(experiment: int) -> dict[str, object]:
    found: dict[str, object] = det_json("e", "config", str(experiment))
    return found


def files_of(experiment: int) -> ExperimentFiles:
    with opened(Path(os.environ["XDG_DATA_HOME"])) as store:
        return ExperimentFiles.for_key(store.experiments.get(experiment).key)


def test_code_and_configuration_of_another(searched: Searched) -> None:
    plain = det_json("e", "fork", str(searched.id), "--paused")
    assert (plain["parent_id"], plain["state"], plain["name"]) == (searched.id, "PAUSED", "odd/../name")
    assert config_of(plain["id"]) == config_of(searched.id)
    old, new = files_of(searched.id).code, files_of(plain["id"]).code
    assert old != new
    assert sorted(os.listdir(new)) == sorted(os.listdir(old))
    assert (new / "train.py").read_text() == (old / "train.py").read_text()


def test_it_is_called_as_the_other_is_now(searched: Searched) -> None:
    det_ok("e", "set", "name", str(searched.id), "another name")
    det_ok("e", "label", "add", str(searched.id), "good")
    plain = det_json("e", "fork", str(searched.id), "--paused", "--config", "description=mine")
    assert (plain["name"], plain["labels"], plain["description"]) == ("another name", ["good"], "mine")


def test_changes_are_merged_into_it(searched: Searched) -> None:
    Path("other.yaml").write_text("searcher: {name: single}\ndescription: from a file\nlabels: [mine]\n")
    words = ["--config-file", "other.yaml", "--config", "hyperparameters.lr=0.5", "--config", "max_restarts=1"]
    plain = det_json("e", "fork", str(searched.id), "--paused", "--name", "new", *words)
    assert (plain["name"], plain["description"], plain["labels"]) == ("new", "from a file", ["mine"])
    config = config_of(plain["id"])
    assert config["searcher"] == {"name": "single", "metric": "loss", "smaller_is_better": True}
    assert config["hyperparameters"] == {"lr": 0.5}
    assert config["max_restarts"] == 1
    assert config_of(searched.id)["max_restarts"] == 5


def test_it_begins_with_a_checkpoint(searched: Searched) -> None:
    best = searched.checkpoint(searched.best, 8).checkpoint_id
    latest = det_json("e", "fork", str(searched.id), "--paused", "--from-checkpoint", "latest")
    named = searched.checkpoint(2, 12).checkpoint_id
    with opened(searched.home) as store:
        newest = store.experiments.checkpoints(searched.id)[0].checkpoint_id
    for fork, uuid in (
        (latest, newest),
        (det_json("e", "fork", str(searched.id), "--paused", "--from-checkpoint", "best"), best),
        (det_json("e", "fork", str(searched.id), "--paused", "--from-checkpoint", named), named),
        (det_json("e", "fork", str(latest["id"]), "--paused"), newest),  # like the one from which it was forked
    ):
        assert det_json("e", "config", str(fork["id"]))["searcher"]["source_checkpoint_uuid"] == uuid
    refused = det("e", "fork", str(latest["id"]), "--from-checkpoint", "best")
    assert refused.exit_code == 1
    assert f"experiment {latest['id']}: it has no checkpoint that can be loaded" in refused.stderr
    for wrong in ("../../etc", "none"):
        assert f"Checkpoint {wrong} not found." in det("e", "fork", "1", "--from-checkpoint", wrong).stderr


def test_it_runs_with_the_secrets_of_the_other(project: Path) -> None:
    """The store has never contained them, and they are not shown."""
    (project / "config.yaml").write_text(
        CONFIG.replace("adaptive_asha", "random")
        .replace("time_metric: batches, max_time: 16, max_trials: 4", "max_trials: 1")
        .replace("name: tiny", "name: tiny\nenvironment: {environment_variables: [API_TOKEN=hunter2]}")
    )
    (project / "model" / "train.py").write_text("import os\nassert os.environ['API_TOKEN'] == 'hunter2'\n" + PROGRAM)
    (project / "model" / ".detignore").write_text("*.txt\n")
    (project / "kept.txt").write_text("included, although it would be ignored inside")
    det_ok("e", "create", "config.yaml", "model", "--paused", "-i", "kept.txt")
    done = run_det("e", "fork", "1", "--json", "--config", "searcher.max_trials=2", "--slots", "2")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["parent_id"], summary["state"], summary["trial_count"]) == (1, "COMPLETED", 2)
    assert "Created experiment 2" in done.stderr
    assert (files_of(2).code / "kept.txt").exists()
    assert "hunter2" not in done.stdout + done.stderr + det_ok("e", "config", "2") + str(det_json("e", "ls"))


def test_a_program_that_works_where_its_user_does(project: Path, store: Store) -> None:
    """As with `det run`: data that it reads are not code, and are not copied."""
    (project / "data.bin").write_bytes(b"not code")
    (project / "train.py").write_text(PROGRAM)
    loaded = load_experiment(project / "config.yaml")
    parent = create_experiment(loaded, project, store, paused=True, in_place=True).experiment_id
    forked = det("e", "fork", str(parent), "--paused")
    assert forked.exit_code == 0, forked.output
    assert f"The new experiment works in {project}, like experiment {parent}" in forked.stderr
    assert files_of(parent + 1).place == project
    project.rename(project.with_name("elsewhere"))
    assert "that directory no longer exists" in det("e", "fork", str(parent)).stderr


def test_what_cannot_be_forked(searched: Searched, store: Store) -> None:
    elsewhere = new_experiment(store, "on another machine")
    assert "its files are not on this machine" in det("e", "fork", str(elsewhere)).stderr
    wrong = det("e", "fork", str(searched.id), "--config", "searcher.max_trails=1")
    assert wrong.exit_code == 1
    assert "max_trials" in wrong.stderr
    assert "other.yaml" in det("e", "fork", str(searched.id), "--config-file", "other.yaml").stderr
    before = {path.name for path in (searched.home / "determined" / "experiments").iterdir()}
    planned = det_json("e", "fork", str(searched.id), "--dry-run", "--config", "searcher.max_trials=7")
    assert planned["search"]["trials"] == 7
    assert {path.name for path in (searched.home / "determined" / "experiments").iterdir()} == before
