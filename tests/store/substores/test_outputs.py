"""The contract of the store for outputs of batch inference, tested on each kind of database."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from determined.errors import NotFoundException, StoreError
from determined.store.maintenance.check import check_store
from determined.store.moving.exporting import export_store
from determined.store.moving.importing import import_store
from determined.store.open import open_store, opened_database
from determined.store.rows import EndRow
from determined.store.store import Store
from tests.store.rows import begin, upload


def test_uploads_become_one_output_in_which_the_last_file_of_a_name_counts(store: Store) -> None:
    run = begin(store)
    assert store.outputs.find(run.trial_id) is None
    sent = [
        upload(run, batches=1, files={"a": 1, "b": 2}),
        upload(run, rank=1, batches=3, files={"a": 7}),
        upload(run, batches=2, files={"b": 5}),
        upload(run, batches=2, files={"never": 1}),
    ]
    for each in sent:
        store.outputs.begin_upload(each)
        store.outputs.begin_upload(each)  # the answer was lost: a repetition changes nothing
    assert all(store.outputs.finish_upload(each.key) for each in sent[:3])
    found = store.outputs.find(run.trial_id)
    assert found is not None
    assert found.resources == {"rank_0/a": 1, "rank_0/b": 5, "rank_1/a": 7}
    assert (found.batches, found.reported, found.storage) == (3, 4000.0, "/checkpoints")
    assert store.outputs.get(found.uuid) == found
    assert store.outputs.of_experiment(run.experiment_id) == [found]
    assert [each.finished for each in store.outputs.all_uploads(run.trial_id)] == [True, True, True, False]
    with pytest.raises(NotFoundException, match="Output output-x not found"):
        store.outputs.get("output-x")
    with pytest.raises(NotFoundException, match="is the output of a trial, not a checkpoint"):
        store.upkeep.checkpoint(found.uuid)


def test_uploads_that_are_withdrawn_removed_or_kept_in_part(store: Store) -> None:
    run = begin(store)
    first, second = upload(run, files={"a": 1, "b": 2}), upload(run, files={"c": 3})
    for each in (first, second):
        store.outputs.begin_upload(each)
        store.outputs.finish_upload(each.key)
    store.outputs.withdraw([first.key, second.key])
    assert store.outputs.find(run.trial_id) is not None
    assert store.outputs.get(first.output).uploads == ()
    store.outputs.keep_files(first.key, ["b"])
    store.outputs.remove_upload(second.key)
    assert store.outputs.get(first.output).resources == {"rank_0/b": 2}
    assert not store.outputs.finish_upload(second.key), "a newer attempt has removed it"


def test_an_attempt_that_was_overtaken_uploads_nothing(store: Store) -> None:
    run = begin(store)
    store.outputs.begin_upload(upload(run))
    begin(store, previous=run)
    with pytest.raises(StoreError, match=f"trial {run.trial_id} was started again"):
        store.outputs.begin_upload(upload(run))
    assert len(store.outputs.all_uploads(run.trial_id)) == 1


def test_ranks_that_begin_at_the_same_moment_share_the_output(place: str, store: Store) -> None:
    run = begin(store)
    together = threading.Barrier(4)

    def send(rank: int) -> None:
        own = open_store(place)
        together.wait()
        for _ in range(5):
            each = upload(run, rank=rank)
            own.outputs.begin_upload(each)
            own.outputs.finish_upload(each.key)
        own.close()

    threads = [threading.Thread(target=send, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (found,) = store.outputs.of_experiment(run.experiment_id)
    assert sorted(each.rank for each in found.uploads) == sorted([*range(4)] * 5)


def ended_run_with_output(store: Store) -> str:
    run = begin(store)
    sent = upload(run)
    store.outputs.begin_upload(sent)
    store.outputs.finish_upload(sent.key)
    store.write([EndRow(run.trial_id, run.number, "completed", 5000.0, 1.0)])
    return sent.output


def test_an_output_moves_with_its_experiment_and_its_files_stay_with_the_first_store(
    place: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = ended_run_with_output(store)
    monkeypatch.setenv("DET_STORE", place)
    export_store(tmp_path / "all.jsonl", "jsonl", None, lambda *_: None)
    monkeypatch.setenv("DET_STORE", str(tmp_path / "other.sqlite"))
    import_store(tmp_path / "all.jsonl", lambda _: None)
    moved = open_store(tmp_path / "other.sqlite")
    found = moved.outputs.get(uuid)
    assert (found.borrowed, found.resources) == (True, {"rank_0/part.json": 10})
    assert check_store(lambda _: None)[1] == []
    moved.close()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("outputs", "uuid", "../../x"),
        ("outputs", "uuid", "output-../x"),
        ("outputs", "storage", "../x"),
        ("uploads", "key", "../x"),
        ("uploads", "files", '{"../x": 1}'),
        ("uploads", "files", '{"/etc/x": 1}'),
        ("uploads", "rank", -1),
        ("uploads", "attempt", 7),
    ],
)
def test_a_file_cannot_bring_names_that_lead_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, column: str, value: object
) -> None:
    monkeypatch.setenv("DET_STORE", str(tmp_path / "one.sqlite"))
    store = open_store(tmp_path / "one.sqlite")
    ended_run_with_output(store)
    store.close()
    export_store(tmp_path / "all.jsonl", "jsonl", None, lambda *_: None)
    text = (tmp_path / "all.jsonl").read_text().splitlines()
    hostile = []
    for line in map(json.loads, text):
        if line.get("table") == table:
            line["row"][column] = value
        hostile.append(json.dumps(line))
    (tmp_path / "hostile.jsonl").write_text("\n".join(hostile) + "\n")
    monkeypatch.setenv("DET_STORE", str(tmp_path / "two.sqlite"))
    with pytest.raises(StoreError, match=f"{column} of a row of {table}|{table}: their attempt, rank"):
        import_store(tmp_path / "hostile.jsonl", lambda _: None)


def test_the_check_of_a_store_finds_uploads_without_an_output(
    place: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_run_with_output(store)
    monkeypatch.setenv("DET_STORE", place)
    assert check_store(lambda _: None)[1] == []
    with opened_database(place) as database:
        database.execute("DELETE FROM outputs")
    assert [str(finding) for finding in check_store(lambda _: None)[1]] == [
        "uploads: their trial has no output that they could belong to: 1"
    ]


def test_deleting_an_experiment_removes_the_records_of_its_output(store: Store) -> None:
    uuid = ended_run_with_output(store)
    trial = store.outputs.get(uuid).trial_id
    store.upkeep.delete_experiment(store.experiments.trial(trial).experiment_id, None)
    assert store.outputs.all_uploads(trial) == []
    with pytest.raises(NotFoundException):
        store.outputs.get(uuid)
