"""Imported experiments have files that belong to another store: they are used, and never deleted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.det_command import det, det_json, det_ok, run_det
from tests.cli.searched import Searched
from tests.helpers.records import opened


def files_of(home: Path) -> set[Path]:
    """Return all files except those of the store itself and unimportant ones of a run."""
    found = (path for path in (home / "determined").rglob("*") if path.is_file())
    return {path for path in found if not path.name.startswith("store.sqlite") and path.suffix != ".lock"}


def use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("DET_STORE", str(Path(name).absolute()))


@pytest.fixture
def imported(searched: Searched, monkeypatch: pytest.MonkeyPatch) -> Searched:
    """Import the search into another store."""
    det_ok("store", "export", "all.jsonl")
    use(monkeypatch, "other.sqlite")
    assert det_ok("store", "import", "all.jsonl").endswith("Use --take-over to let this store manage them.\n")
    return searched


def test_nothing_deletes_the_files(imported: Searched, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(imported.home)
    row = imported.checkpoint(1, 4)
    for words in (
        ["delete", row.checkpoint_id],
        ["rm", row.checkpoint_id, "--glob", "weights"],
        ["rm", row.checkpoint_id, "--glob", "*"],
    ):
        refused = det("c", *words, "--yes")
        assert refused.exit_code == 1
        assert re.search(f"checkpoint {row.checkpoint_id}(: it)? was imported", refused.stderr)
        assert "delete it there; deleting experiment 1 removes the records here" in refused.stderr
    assert "PARTIALLY" not in det_ok("c", "rm", row.checkpoint_id)
    policy = ("--save-experiment-best", "0", "--save-trial-best", "0", "--save-trial-latest", "0")
    assert json.loads(det("e", "set", "gc-policy", "1", *policy, "--yes", "--json").stdout)["removed"] == []
    refused = det("e", "delete-tb-files", "1", "--yes")
    assert refused.exit_code == 1
    assert "was imported, and its TensorBoard files belong to the store that it comes from" in refused.stderr
    said = det_ok("e", "delete", "1", "--yes")
    assert f"{imported.files(row)} was kept: experiment 1 was imported, and its files belong to the store" in said
    assert said.count(" was kept: ") == 8 + 1 + len(list((imported.home / "determined" / "runs").iterdir()))
    assert det_json("e", "ls") == []
    assert files_of(imported.home) == before
    monkeypatch.delenv("DET_STORE")
    assert det_ok("c", "download", row.checkpoint_id, "-q")


def test_what_a_new_store_takes_over_is_its_own(imported: Searched, monkeypatch: pytest.MonkeyPatch) -> None:
    det_ok("store", "export", "again.jsonl")
    use(monkeypatch, "third.sqlite")
    assert "not copied" not in det_ok("store", "import", "again.jsonl", "--take-over")
    uuid = imported.checkpoint(1, 4).checkpoint_id
    assert "was imported" in det("c", "delete", uuid, "--yes").stderr  # the second store does not own them
    use(monkeypatch, "fourth.sqlite")
    det_ok("store", "import", "all.jsonl", "--take-over")
    assert det("c", "delete", uuid, "--yes").exit_code == 0
    done = json.loads(det("e", "delete", "1", "--yes", "--json").stdout)
    assert (len(done["checkpoints"]), done["left"]) == (8, [])
    assert [path for path in files_of(imported.home) if "experiments" in path.parts or "runs" in path.parts] == []


def test_a_continued_search_deletes_only_its_own_checkpoints(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a file whose author marks files to be deleted."""
    det_ok("store", "export", "all.jsonl")
    victim = searched.checkpoint(1, 4)
    changed = [marked(json.loads(line), victim.checkpoint_id) for line in Path("all.jsonl").read_text().splitlines()]
    Path("all.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in changed))
    use(monkeypatch, "other.sqlite")
    det_ok("store", "import", "all.jsonl")
    before = {path for path in files_of(searched.home) if path.name == "weights"}
    keep = "checkpoint_storage={save_experiment_best: 0, save_trial_best: 0, save_trial_latest: 1}"
    done = run_det("e", "continue", "1", "--config", "searcher.max_trials=3", "--config", keep, "-f")
    assert done.returncode == 0, done.stderr
    assert before <= files_of(searched.home)
    with opened() as store:
        old, new = [store.checkpoints(trial.id) for trial in store.experiments.trials(1)][1:]
        assert [(row.state, row.borrowed) for row in old] == [("ACTIVE", True)] * 4
        assert sorted((row.state, row.borrowed) for row in new) == [("ACTIVE", False)] + [("DELETED", False)] * 3
    said = json.loads(det("e", "delete", "1", "--yes", "--json").stdout)
    assert len(said["checkpoints"]) == 4
    assert before <= files_of(searched.home)


def marked(line: dict[str, Any], uuid: str) -> dict[str, Any]:
    text = json.dumps(line)
    return json.loads(text.replace('"ACTIVE"', '"DELETED"')) if f'"uuid": "{uuid}"' in text else line
