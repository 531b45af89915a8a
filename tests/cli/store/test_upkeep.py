"""Commands on a search that really ran: download, label, rename, archive, clean up, extend, delete."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from determined.cli.main import main
from determined.store.store import Store
from tests.cli.conftest import WEIRD
from tests.cli.det_command import det, det_json, det_ok, rows_of, run_det
from tests.cli.filling import lead, new_experiment
from tests.cli.searched import Searched

POLICY = ["--save-experiment-best", "1", "--save-trial-best", "0", "--save-trial-latest", "1"]


@pytest.mark.parametrize(
    "words",
    [
        ["continue", "7"],
        ["download", "7"],
        ["download-model-def", "7"],
        ["archive", "7"],
        ["unarchive", "7"],
        ["label", "add", "7", "x"],
        ["label", "remove", "7", "x"],
        ["set", "name", "7", "x"],
        ["set", "description", "7", "x"],
        ["set", "max-slots", "7", "1"],
        ["set", "gc-policy", "7", *POLICY],
        ["delete", "7", "--yes"],
        ["delete-tb-files", "7", "--yes"],
    ],
)
def test_unknown_ids(words: list[str]) -> None:
    result = det("e", *words)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line == "Experiment 7 not found."


def test_download(searched: Searched) -> None:
    best = searched.checkpoint(searched.best, 8).checkpoint_id
    assert det_ok("e", "download", "1", "-q") == f"checkpoints/{best}\n"
    assert Path("checkpoints", best, "weights").read_text() == "8"
    found = det_json("e", "download", "1", "--top-n", "2", "-o", "two")
    assert [row["batches"] for row in found] == [8, 8]  # one of each trial: they are the two best
    assert sorted(path.name for path in Path("two").iterdir()) == sorted(row["uuid"] for row in found)
    words = ["--sort-by", "accuracy", "--smaller-is-better", "true"]
    assert det_json("e", "download", "1", *words)[0]["batches"] == 4
    assert det("e", "download", "1", "--sort-by", "accuracy").exit_code == 2
    assert det("e", "download", "1", "--smaller-is-better", "true").exit_code == 2
    missing = det("e", "download", "1", "--sort-by", "none", "--smaller-is-better", "true")
    assert "has a number for the validation metric 'none'" in missing.stderr


def test_the_code(searched: Searched) -> None:
    assert det_ok("e", "download-model-def", "1") == "experiment_1_model_def.tgz\n"
    with tarfile.open("experiment_1_model_def.tgz") as archive:
        assert "./train.py" in archive.getnames()
    assert det_json("e", "download-model-def", "1", "-o", "x/y")["path"] == "x/y/experiment_1_model_def.tgz"
    Path("x/y/experiment_1_model_def.tgz").write_text("mine")
    refused = det("e", "download-model-def", "1", "-o", "x/y")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.endswith(
        "x/y/experiment_1_model_def.tgz already exists: name another file with -o, or remove it\n"
    )
    assert Path("x/y/experiment_1_model_def.tgz").read_text() == "mine"


def test_archived_and_back(searched: Searched, store: Store) -> None:
    assert det_ok("e", "archive", "1") == "Experiment 1: archived\n"
    assert det_json("e", "ls") == []
    assert det_json("e", "unarchive", "1")["archived"] is False
    paused = new_experiment(store, paused=True)
    assert "once it has ended" in det("e", "archive", str(paused)).stderr


@pytest.mark.parametrize("text", ["plain", "../../x", "a/b", 'it\'s "quoted"', "", WEIRD])
def test_names_labels_and_descriptions_are_data(searched: Searched, store: Store, text: str) -> None:
    printed = det_ok("e", "set", "name", "1", text) + det_ok("e", "set", "description", "1", text)
    printed += det_ok("e", "label", "add", "1", text)
    row = store.experiments.get(1)
    assert (row.name, row.description, row.labels) == (text, text, [text])
    assert printed.count("\n") == 3
    assert "\x1b" not in printed
    assert det_json("e", "label", "add", "1", text)["labels"] == [text]
    assert det_ok("e", "label", "remove", "1", text) == "Labels of experiment 1: none\n"
    asked = CliRunner().invoke(main, ["e", "delete", "1"], input="n\n")
    assert asked.exit_code == 1
    assert "\x1b" not in asked.stderr
    assert det_json("e", "set", "name", "1", "again")["name"] == "again"


class TestGcPolicy:
    def test_shows_asks_and_removes(self, searched: Searched) -> None:
        """The newest of each trial, and the best of all, are kept."""
        best, other = searched.best, 3 - searched.best
        doomed = {(best, 4), (best, 12), (other, 4), (other, 8), (other, 12)}
        refused = CliRunner().invoke(main, ["e", "set", "gc-policy", "1", *POLICY], input="n\n")
        assert (refused.exit_code, refused.stdout) == (1, "")
        shown = rows_of(refused.stderr.partition("removed:\n")[2].partition("Set this policy")[0])
        assert {(int(row["Trial ID"]), int(row["# of Batches"])) for row in shown} == doomed
        assert self.present(searched) == {(trial, batches) for trial in (1, 2) for batches in (4, 8, 12, 16)}
        assert det_json("e", "config", "1")["checkpoint_storage"]["save_trial_best"] == 9

        done = det("e", "set", "gc-policy", "1", *POLICY, "--yes", "--json")
        assert len(json.loads(done.stdout)["removed"]) == 5
        assert self.present(searched) == {(best, 8), (best, 16), (other, 16)}
        config = det_json("e", "config", "1")["checkpoint_storage"]
        assert [config[f"save_{name}"] for name in ("experiment_best", "trial_best", "trial_latest")] == [1, 0, 1]
        again = det("e", "set", "gc-policy", "1", *POLICY, "--yes")
        assert "No checkpoint would be removed." in again.stderr
        assert again.stdout == "Experiment 1: 0 checkpoints removed\n"

    def test_what_is_registered_and_one_good_of_each_trial_stay(self, searched: Searched, store: Store) -> None:
        model = store.registry.create_model("m")
        store.registry.register(model.id, searched.checkpoint(1, 4).checkpoint_id)
        (searched.files(searched.checkpoint(2, 16)) / "weights").write_text("damaged")
        nothing = [word if word.startswith("--") else "0" for word in POLICY]
        assert det("e", "set", "gc-policy", "1", *nothing, "--yes").exit_code == 0
        assert {(1, 4), (2, 12)} <= self.present(searched)

    def test_all_numbers_are_needed(self) -> None:
        assert det("e", "set", "gc-policy", "1", *POLICY[:4]).exit_code == 2

    def present(self, searched: Searched) -> set[tuple[int, int]]:
        """Return what exists according to the store, and which files exist."""
        known = [searched.checkpoint(trial, batches) for trial in (1, 2) for batches in (4, 8, 12, 16)]
        assert {row.checkpoint_id for row in known if row.state == "ACTIVE"} == {
            row.checkpoint_id for row in known if searched.files(row).exists()
        }
        return {(row.trial_id, row.steps_completed) for row in known if row.state == "ACTIVE"}


def test_max_slots(searched: Searched, store: Store) -> None:
    assert det_ok("e", "set", "max-slots", "1", "1") == "Experiment 1: limited to 1 slot\n"
    assert det_json("e", "config", "1")["resources"]["max_slots"] == 1
    assert det("e", "set", "max-slots", "1", "0").exit_code == 2
    store.close()
    done = run_det("e", "continue", "1", "--config", "searcher.max_trials=3", "--slots", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trial_states"] == {"COMPLETED": 3}


class TestContinue:
    def test_an_ended_one_wants_more_to_do(self, searched: Searched) -> None:
        result = det("e", "continue", "1")
        assert result.exit_code == 1
        assert "nothing is left to do: give it more trials with --config searcher.max_trials=N" in result.stderr
        for words, said in (
            ("hyperparameters.lr=1", "were drawn from the space"),
            ("searcher.max_trials=many", "many"),
        ):
            refused = det("e", "continue", "1", "--config", words)
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert said in refused.stderr
        Path("more.yaml").write_text("searcher: {max_trials: 1}\n")
        assert "expected more than the present 2" in det("e", "continue", "1", "--config-file", "more.yaml").stderr

    def test_a_paused_one_continues(self, searched: Searched) -> None:
        paused = searched.search.create()
        done = run_det("e", "continue", str(paused), "--slots", "2")
        assert done.returncode == 0, done.stderr
        assert det_json("e", "describe", str(paused))[0]["state"] == "COMPLETED"


class TestDelete:
    def test_all_of_it(self, searched: Searched) -> None:
        row = searched.checkpoint(1, 8)
        asked = CliRunner().invoke(main, ["e", "delete", "1"], input="n\n")
        assert asked.exit_code == 1
        assert "Delete experiment 1 (odd/../name, COMPLETED) with 2 trials and 8 checkpoints?" in asked.stderr
        plain = det_json("e", "delete", "1", "--yes")
        assert row.checkpoint_id in plain["checkpoints"]
        assert not searched.files(row).exists()
        assert det_json("e", "ls", "--all") == []
        left = [path for path in (searched.home / "determined").rglob("*") if path.is_file()]
        assert {path.name.partition(".")[0] for path in left} <= {"store"}

    def test_registered_and_running_ones_are_kept(self, searched: Searched, store: Store) -> None:
        row = searched.checkpoint(1, 8)
        store.registry.register(store.registry.create_model("../m").id, row.checkpoint_id)
        refused = det("e", "delete", "1", "--yes")
        assert refused.exit_code == 1
        assert f"checkpoint {row.checkpoint_id} is registered as version 1 of model '../m'" in refused.stderr
        assert searched.files(row).exists()
        active = new_experiment(store)
        lead(store, active)
        assert "once it has ended" in det("e", "delete", str(active), "--yes").stderr

    def test_tensorboard_files(self, searched: Searched) -> None:
        def found() -> list[Path]:
            return list(searched.home.rglob("*tfevents*"))

        assert len(found()) == 2
        assert det_ok("e", "delete-tb-files", "1", "--yes") == "Experiment 1: TensorBoard files of 2 runs deleted\n"
        assert found() == []
        assert det_json("e", "delete-tb-files", "1", "--yes")["directories"] == []
