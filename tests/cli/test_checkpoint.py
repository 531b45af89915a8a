"""`det checkpoint` on a search that ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from determined.cli.main import main
from determined.store.store import Store
from tests.cli.det_command import det, det_csv, det_json, det_ok, head_of, rows_of, run_det
from tests.cli.searched import Searched

COLUMNS = [
    "Experiment ID",
    "Trial ID",
    "Steps Completed",
    "Report Time",
    "Checkpoint UUID",
    "Validation Metrics",
    "Metadata",
]


@pytest.mark.parametrize("uuid", ["none", "../../etc", "a/b", "two\nlines", "'; DROP TABLE checkpoints; --"])
@pytest.mark.parametrize("command", ["describe", "download", "delete", "rm"])
def test_unknown_ones(command: str, uuid: str) -> None:
    result = det("c", command, uuid)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"Checkpoint {uuid} not found.\n" == result.stderr
    assert not Path("checkpoints").exists()


def test_describe(searched: Searched) -> None:
    uuid = searched.checkpoint(2, 8).checkpoint_id
    printed = det_ok("checkpoint", "describe", uuid)
    assert head_of(printed) == COLUMNS
    (row,) = rows_of(printed)
    assert (row["Experiment ID"], row["Trial ID"], row["Steps Completed"]) == ("1", "2", "8")
    assert json.loads(row["Validation Metrics"])["accuracy"] == 8
    plain = det_json("c", "describe", uuid)
    assert (plain["uuid"], plain["experiment_id"], plain["validation_metrics"]["accuracy"]) == (uuid, 1, 8)
    assert det_csv("c", "describe", uuid)[0]["Checkpoint UUID"] == uuid


def test_download(searched: Searched) -> None:
    uuid = searched.checkpoint(1, 4).checkpoint_id
    assert det_ok("c", "download", uuid, "-q") == f"checkpoints/{uuid}\n"
    assert Path("checkpoints", uuid, "weights").read_text() == "4"
    assert det_json("c", "download", uuid, "-o", "here", "--mode", "direct")["path"] == "here"
    assert "--mode master has no effect" in det("c", "download", uuid, "--mode", "master").stderr


def test_delete_asks_and_removes_the_files(searched: Searched) -> None:
    rows = [searched.checkpoint(1, 4), searched.checkpoint(1, 8)]
    both = ",".join(row.checkpoint_id for row in rows)
    for answer in ("n\n", ""):
        result = CliRunner().invoke(main, ["c", "delete", both], input=answer)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "Delete 2 checkpoints? [y/N]" in result.stderr
        assert all(searched.files(row).is_dir() for row in rows)
    result = CliRunner().invoke(main, ["c", "delete", both], input="y\n")
    assert (result.exit_code, result.stdout) == (0, "Deleted 2 checkpoints\n")
    assert not any(searched.files(row).exists() for row in rows)
    assert searched.checkpoint(1, 4).state == "DELETED"
    assert searched.files(searched.checkpoint(1, 12)).is_dir()
    assert det("c", "delete", f"{both},", "--yes").exit_code == 2
    again = CliRunner().invoke(main, ["c", "delete", rows[0].checkpoint_id], input="")  # there is nothing to confirm
    assert (again.exit_code, again.output) == (0, f"Checkpoint {rows[0].checkpoint_id} is DELETED already\n")
    third = searched.checkpoint(1, 12).checkpoint_id
    assert det("c", "delete", f"{rows[0].checkpoint_id},{third}", "--yes").stdout.splitlines() == [
        f"Checkpoint {rows[0].checkpoint_id} is DELETED already",
        "Deleted 1 checkpoint",
    ]


def test_what_is_registered_stays(searched: Searched, store: Store) -> None:
    model = store.registry.create_model("it's a model")
    kept, other = searched.checkpoint(1, 8), searched.checkpoint(1, 4)
    store.registry.register(model.id, kept.checkpoint_id)
    both = f"{other.checkpoint_id},{kept.checkpoint_id}"
    for words in (["delete", both], ["rm", kept.checkpoint_id, "--glob", "weights"], ["rm", both, "--glob", "*"]):
        result = det("c", *words, "--yes")
        assert result.exit_code == 1
        assert kept.checkpoint_id in result.stderr
        assert "is registered as version 1 of model" in result.stderr
    for row in (kept, other):
        assert (searched.files(row) / "weights").exists()
        assert searched.checkpoint(1, row.steps_completed).state == "ACTIVE"


def test_rm(searched: Searched) -> None:
    row = searched.checkpoint(2, 16)
    assert CliRunner().invoke(main, ["c", "rm", row.checkpoint_id, "--glob", "opt*"], input="n\n").exit_code == 1
    assert (searched.files(row) / "optimizer.bin").exists()
    result = det("c", "rm", row.checkpoint_id, "--glob", "opt*", "--yes", "--json")
    assert f"{row.checkpoint_id}: optimizer.bin (16 B)" in result.stderr
    (plain,) = json.loads(result.stdout)
    assert (plain["state"], "optimizer.bin" in plain["resources"]) == ("PARTIALLY_DELETED", False)
    assert sorted(path.name for path in searched.files(row).iterdir()) == ["metadata.json", "weights"]
    other = searched.checkpoint(2, 12)
    (searched.files(other) / "weights").unlink()
    assert "PARTIALLY_DELETED" in det_ok("c", "rm", other.checkpoint_id)
    assert "weights" not in searched.checkpoint(2, 12).resources


def test_as_a_process(searched: Searched) -> None:
    uuid = searched.checkpoint(1, 16).checkpoint_id
    done = run_det("c", "delete", uuid, input="")
    assert (done.returncode, done.stdout) == (1, "")
    done = run_det("c", "delete", uuid, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["state"] == "DELETED"
