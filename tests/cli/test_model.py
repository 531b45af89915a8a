"""`det model` with the checkpoints of a search that ran."""

from __future__ import annotations

import json
import shlex

import pytest
from click.testing import CliRunner

from determined.cli.main import main
from tests.cli.conftest import WEIRD
from tests.cli.det_command import det, det_csv, det_json, det_ok, head_of, rows_of, run_det
from tests.cli.searched import Searched

MODEL = ["ID", "Name", "Description", "Workspace ID", "Creation Time", "Last Updated Time", "Metadata"]
VERSION = ["Version #", "Trial ID", "Batch #", "Checkpoint UUID", "Validation Metrics", "Metadata"]


def test_nothing_in_the_store() -> None:
    for words in (["m"], ["model", "list"], ["m", "ls"]):
        assert head_of(det_ok(*words)) == MODEL
    assert det_json("m") == det_csv("m", "list") == []
    for words in (["describe", "x"], ["list-versions", "x"], ["register-version", "x", "y"], ["delete", "x", "--yes"]):
        result = det("m", *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "Model 'x' not found.\n"
    assert det("m", "describe", "7").stderr == "Model 7 not found.\n"


@pytest.mark.parametrize("name", ["../../x", "a/b", 'it\'s "quoted"', "12", WEIRD])
def test_names_are_data(name: str) -> None:
    assert det_json("m", "create", name, "--description", name)["name"] == name
    assert det_json("m", "describe", name)["description"] == name
    printed = det_ok("m", "list")
    assert "\x1b" not in printed
    assert len(printed.splitlines()) == 3
    assert "already" in det("m", "create", name).stderr
    asked = CliRunner().invoke(main, ["m", "delete", name], input="n\n")
    assert asked.exit_code == 1
    assert det_json("m", "delete", name, "--yes")["name"] == name
    assert det_json("m") == []


def test_order_and_pages() -> None:
    for name, description in (("b", "1"), ("a", "3"), ("c", "2")):
        det_ok("m", "create", name, "--description", description)

    def names(*words: str) -> str:
        return "".join(row["name"] for row in det_json("m", "list", *words))

    assert names() == names("--sort-by", "creation_time") == "bac"
    assert names("--sort-by", "name") == "abc"
    assert names("--sort-by", "description", "--order-by", "desc") == "acb"
    assert names("--sort-by", "name", "--limit", "1", "--offset", "1") == "b"
    assert "a model needs a name" in det("m", "create", " ").stderr


def test_versions(searched: Searched) -> None:
    first, second = searched.checkpoint(1, 8).checkpoint_id, searched.checkpoint(2, 16).checkpoint_id
    det_ok("m", "create", "digits")
    printed = det_ok("m", "register-version", "digits", first)
    assert head_of(printed) == VERSION
    assert det_json("m", "register-version", "digits", second)["version"] == 2
    rows = rows_of(det_ok("m", "list-versions", "digits"))
    assert [(row["Version #"], row["Trial ID"], row["Batch #"]) for row in rows] == [("2", "2", "16"), ("1", "1", "8")]
    assert json.loads(rows[0]["Validation Metrics"])["accuracy"] == 16
    assert [row["Checkpoint UUID"] for row in det_csv("m", "list-versions", "1")] == [second, first]

    model, version = det_ok("m", "describe", "digits").split("\n\n")
    assert (head_of(model), head_of(version)) == (MODEL, VERSION)
    assert rows_of(version)[0]["Version #"] == "2"
    plain = det_json("m", "describe", "digits", "--version", "1")
    assert (plain["version_count"], plain["version"]["checkpoint"]["uuid"]) == (2, first)
    assert det("m", "describe", "digits", "--version", "3").stderr == "Version 3 of model 'digits' not found.\n"

    assert det("c", "delete", first, "--yes").exit_code == 1
    assert det("e", "delete", "1", "--yes").exit_code == 1
    assert det_ok("m", "delete", "digits", "--yes") == "Deleted the model digits\n"
    assert det("c", "delete", first, "--yes").exit_code == 0
    det_ok("m", "create", "digits")
    assert "only a complete one can be registered" in det("m", "register-version", "digits", first).stderr
    assert det("m", "register-version", "digits", "../x").stderr == "Checkpoint ../x not found.\n"


def test_a_version_is_deleted_as_the_refusal_says(searched: Searched) -> None:
    uuid = searched.checkpoint(1, 8).checkpoint_id
    det_ok("m", "create", "my digits")
    for _ in range(2):
        det_ok("m", "register-version", "my digits", uuid)
    for number in ("1", "2"):
        words = det("c", "delete", uuid, "--yes").stderr.partition("first: det ")[2]
        assert CliRunner().invoke(main, shlex.split(words), input="n\n").exit_code == 1
        assert det_ok(*shlex.split(words), "--yes") == f"Deleted version {number} of the model my digits\n"
        refused = det(*shlex.split(words), "--yes")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert f"Version {number} of model 'my digits' not found." in refused.stderr
    assert det_json("m", "describe", "my digits")["version_count"] == 0
    assert det("c", "delete", uuid, "--yes").exit_code == 0


def test_as_a_process() -> None:
    done = run_det("model", "create", "digits", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["version_count"] == 0
