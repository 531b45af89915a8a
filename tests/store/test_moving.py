"""Experiments that move between stores: completely and unchanged, or not at all; no file is trusted."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.errors import StoreError
from determined.store.maintenance.check import check_store
from determined.store.moving.exporting import Format, export_store
from determined.store.moving.importing import Imported, import_store
from determined.store.open import open_store, opened_database
from determined.store.store import Store
from tests.helpers.postgres import PostgresServer
from tests.store.experiments import begin_managed, held_experiment, with_trials
from tests.store.moving import ODD, fill, rows_of
from tests.store.rows import begin, metric

Line = dict[str, Any]


def use(monkeypatch: pytest.MonkeyPatch, place: str | Path) -> None:
    monkeypatch.setenv("DET_STORE", str(place))


def export(target: Path, form: Format = "jsonl", experiments: list[int] | None = None) -> Path:
    told: list[tuple[int, int]] = []
    done = export_store(target, form, experiments, lambda *numbers: told.append(numbers))
    assert told[-1] == (sum(done.rows.values()),) * 2
    return done.path


def take(source: Path, *, take_over: bool = False) -> Imported:
    return import_store(source, lambda read: None, take_over=take_over)


def _stamps(place: str) -> set[tuple[Any, ...]]:
    """Return the stamps by which caches recognize changed reports of trials."""
    with opened_database(place) as database:
        return set(database.execute("SELECT changes, rewrites FROM trials WHERE steps_completed > 0"))


def nothing_is_wrong() -> bool:
    return check_store(lambda what: None)[1] == []


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export one of everything to a file."""
    directory = tmp_path_factory.mktemp("exported")
    store = open_store(directory / "store.sqlite")
    fill(store)
    store.close()
    with pytest.MonkeyPatch.context() as monkeypatch:
        use(monkeypatch, directory / "store.sqlite")
        return export(directory / "all.jsonl")


def test_to_a_server_and_back(tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is unchanged, including its number, after a move through both formats and both databases."""
    places = [str(tmp_path / "first.sqlite"), postgres.new_database(), str(tmp_path / "last.sqlite")]
    store = open_store(places[0])
    fill(store)
    store.close()
    use(monkeypatch, places[0])
    first = export(tmp_path / "all.jsonl")
    use(monkeypatch, places[1])
    assert all(moved.new and moved.there == moved.here for moved in take(first, take_over=True).experiments)
    second = export(tmp_path / "all", "parquet")
    use(monkeypatch, places[2])
    take(second, take_over=True)
    assert rows_of(places[0]) == rows_of(places[1]) == rows_of(places[2])
    stamps = [_stamps(place) for place in places]
    assert len(frozenset().union(*stamps)) == sum(map(len, stamps)) > 0
    for place in places[1:]:
        use(monkeypatch, place)
        assert nothing_is_wrong()
        store = open_store(place)
        lease, trials = with_trials(store, 1)  # new numbers follow the old ones
        store.write([metric(begin_managed(store, lease, trials[0]), "validation", 1, {"error": 2.0})])
        store.registry.create_model("another")
        store.close()
    for path in (first, *second.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_into_a_store_that_has_experiments(
    place: str, store: Store, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imported experiments get new numbers and keep their content; existing rows are kept; a second import changes
    nothing.
    """
    use(monkeypatch, place)
    begin(store)
    own, own_trials = with_trials(store, 3)
    begin_managed(store, own, own_trials[0])
    kept = store.experiments.get(own.experiment_id)
    store.registry.create_model(ODD)
    moved = take(exported).experiments
    assert [experiment.new for experiment in moved] == [True] * 4
    assert {experiment.here for experiment in moved}.isdisjoint({1, own.experiment_id})
    search, _, follower, waiting = [store.experiments.get(experiment.here) for experiment in moved]
    assert (search.name, search.labels, search.state) == (ODD, [ODD, "two"], "COMPLETED")
    assert waiting.parent_id == search.id
    trials = store.experiments.trials(search.id)
    assert [trial.best for trial in trials] == [1.1, 2.1]
    assert [store.metrics(trial.id, "training")[0].metrics[ODD] for trial in trials] == [1, 1]
    assert store.logs(trials[0].id)[0].text == ODD.replace("\n", " ")
    assert len(store.experiments.journal(search.id)) == 1
    assert search.last_request == store.experiments.requests(search.id)[-1].id
    saved = store.checkpoints(trials[0].id)[0].checkpoint_id
    assert store.experiments.trials(waiting.id)[1].source_checkpoint_id == saved
    assert [run.parent_id for run in store.runs() if run.experiment_id == follower.id] == [trials[1].id]
    (model,) = store.registry.models()
    assert [(version.number, version.checkpoint) for version in store.registry.versions(model.id)] == [(1, saved)]
    assert waiting.holder is None
    assert store.experiments.get(own.experiment_id) == kept
    assert nothing_is_wrong()

    before = rows_of(place)
    again = take(exported)
    assert not any(experiment.new for experiment in again.experiments)
    assert [experiment.here for experiment in again.experiments] == [experiment.here for experiment in moved]
    assert set(again.rows.values()) == {0}
    assert rows_of(place) == before
    held_experiment(store)


def test_some_experiments(tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are exported with what belongs to them; references to what is not exported are dropped."""
    use(monkeypatch, tmp_path / "all.sqlite")
    take(exported)
    for form in ("jsonl", "parquet"):
        use(monkeypatch, tmp_path / "all.sqlite")
        part = export(tmp_path / f"part-{form}", form, [4, 3])
        use(monkeypatch, tmp_path / f"{form}.sqlite")
        take(part)
        rows = rows_of(str(tmp_path / f"{form}.sqlite"))
        assert [row["id"] for row in rows["experiments"]] == [3, 4]
        assert [row["parent_id"] for row in rows["experiments"]] == [None, None]
        assert {row["experiment_id"] for row in rows["trials"]} == {3, 4}
        assert rows["models"] == rows["checkpoints"] == []
        assert nothing_is_wrong()
    use(monkeypatch, tmp_path / "all.sqlite")
    with pytest.raises(StoreError, match="Experiment 77 not found"):
        export(tmp_path / "none", experiments=[1, 77])
    assert not list(tmp_path.glob(".*"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_is_on_disk_before_it_has_its_name(
    form: Format, tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path / "store.sqlite")
    take(exported)
    target, flushed = tmp_path / "moved", set[tuple[int, int]]()
    fsync = os.fsync

    def watch_fsync(descriptor: int) -> None:
        if not target.exists():
            status = os.fstat(descriptor)
            flushed.add((status.st_dev, status.st_ino))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    export(target, form)
    written = [path.stat() for path in (target, *(target.iterdir() if target.is_dir() else ()))]
    assert {(status.st_dev, status.st_ino) for status in written} <= flushed


def test_existing_files_are_not_replaced(tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path / "store.sqlite")
    take(exported)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(StoreError, match="already exists"):
            export(tmp_path / name)
    with pytest.raises(StoreError, match="already exists"):
        export(tmp_path, "parquet")
    assert (tmp_path / "file").read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def row(lines: list[Line], table: str, number: int = 0) -> Line:
    found: Line = [line["row"] for line in lines if line.get("table") == table][number]
    return found


def changed(table: str, **values: Any) -> Callable[[list[Line]], None]:
    return lambda lines: row(lines, table).update(values)


DAMAGES: dict[str, tuple[Callable[[list[Line]], Any], str]] = {
    "another program's": (
        lambda lines: lines[0].update(format="else"),
        "is neither an archive .* nor an export of rows",
    ),
    "newer format": (lambda lines: lines[0].update(version=2), "newer version"),
    "newer schema": (lambda lines: lines[0].update(schema=99), "newer version"),
    "no version": (lambda lines: lines[0].pop("version"), "which version"),
    "cut off": (lambda lines: lines.pop(), "is cut off"),
    "a row less": (
        lambda lines: lines.remove(next(line for line in lines if line.get("table") == "logs")),
        "does not have the rows",
    ),
    "more after the end": (lambda lines: lines.append(lines[1]), "follows its last line"),
    "no map": (lambda lines: lines.insert(3, 7), "expected a map"),  # type: ignore[arg-type]
    "no row": (lambda lines: lines.insert(3, {"table": "trials"}), "expected a table and a row"),
    "unknown table": (lambda lines: lines[1].update(table="users"), "no table 'users'"),
    "wrong order": (lambda lines: lines.insert(-1, lines[1]), "come after"),
    "unknown column": (changed("trials", role="admin"), "no column 'role'"),
    "missing value": (changed("trials", experiment_id=None), "experiment_id.*is missing"),
    "truth for a number": (changed("trials", number=True), "not a whole number"),
    "a fraction for a number": (changed("trials", number=1.5), "not a whole number"),
    "a huge number": (changed("metrics", step=2**63), "out of range"),
    "an id of nothing": (changed("experiments", id=0), "cannot be an id"),
    "another flag": (changed("experiments", archived=2), "out of range"),
    "text for a time": (changed("experiments", created="now"), "not a number"),
    "no moment": (changed("experiments", created=1e18), "not a valid time"),
    "no text": (changed("experiments", name=["x"]), "not a text"),
    "a zero in text": (changed("experiments", name="a\0b"), "no database takes"),
    "half a character": (changed("experiments", name="\ud800"), "no database takes"),
    "another state": (changed("trials", state="FLYING"), "expected one of QUEUED"),
    "no JSON": (changed("trials", hparams="{"), "hparams.*is not JSON"),
    "no list of nodes": (changed("trials", nodes=""), "nodes.*is not JSON"),
    "passed hparams": (changed("trials", passed_hparams="[]"), "passed_hparams.*is no map"),
    "deep JSON": (changed("trials", hparams="[" * 100_000), "is not JSON"),
    "another shape": (changed("experiments", config="[]"), "config.*is no map"),
    "sizes that are none": (changed("checkpoints", resources='{"a": "b"}'), "no map of names to sizes"),
    "a path for a checkpoint": (changed("checkpoints", uuid="../../etc"), "cannot be the id of a checkpoint"),
    "a path for an experiment": (changed("experiments", key="../../x"), "cannot be the key of an experiment"),
    "an absolute path for an experiment": (changed("experiments", key="/x"), "cannot be the key of an experiment"),
    "a path for a source": (changed("trials", source="../x"), "source.*cannot be the id of a checkpoint"),
    "a path for a file": (changed("checkpoints", resources='{"../x": 1}'), "no name for a file"),
    "an absolute path for a file": (changed("checkpoints", resources='{"/x": 1}'), "no name for a file"),
    "a relative storage": (changed("checkpoints", storage="x/../.."), "storage.*no absolute path"),
    "a relative directory of a run": (changed("attempts", run_dir="../x"), "run_dir.*no absolute path"),
    "a reference to nothing": (changed("trials", experiment_id=99), "experiments 99, which is not in it"),
    "twice the same": (lambda lines: row(lines, "trials", 1).update(id=row(lines, "trials")["id"]), "two rows"),
    "a by-hand run that never was": (
        lambda lines: row(lines, "experiments", 3).update(by_hand=1, state=None),
        "is inconsistent",
    ),
    "a step too many": (changed("trials", steps_completed=99), "is inconsistent"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_is_taken_from_a_file_that_is_not_right(
    damage: str, tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path / "store.sqlite")
    lines = read(exported)
    spoil, words = DAMAGES[damage]
    spoil(lines)
    if damage == "wrong order":
        lines[-1]["end"]["experiments"] += 1
    with pytest.raises(StoreError, match=words):
        take(write(tmp_path / "spoilt.jsonl", lines))
    assert not any(rows_of(str(tmp_path / "store.sqlite")).values())


@pytest.mark.parametrize(
    ("content", "words"),
    [(content, "is neither an archive .* nor an export of rows") for content in (b"\xff\xfe\x80", b"PAR1", b"")],
)
def test_files_of_another_kind(content: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path / "store.sqlite")
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(StoreError, match=words):
        take(tmp_path / "file")
    (tmp_path / "directory").mkdir()
    with pytest.raises(StoreError, match=r"no manifest\.json"):
        take(tmp_path / "directory")
    with pytest.raises(StoreError, match="does not exist"):
        take(tmp_path / "nothing")


@pytest.mark.parametrize("damage", ["cut off", "garbage", "missing", "other rows"])
def test_damaged_parquet_files(damage: str, tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path / "store.sqlite")
    take(exported)
    directory = export(tmp_path / "all", "parquet")
    path = directory / "trials.parquet"
    if damage == "cut off":
        os.truncate(path, 1000)
    elif damage == "garbage":
        path.write_bytes(b"x" * 5000)
    elif damage == "missing":
        path.unlink()
    else:
        manifest = json.loads((directory / "manifest.json").read_text())
        manifest["rows"]["trials"] += 1
        (directory / "manifest.json").write_text(json.dumps(manifest))
    use(monkeypatch, tmp_path / "other.sqlite")
    with pytest.raises(StoreError, match=r"trials\.parquet (cannot be read|is damaged)"):
        take(directory)
    assert not any(rows_of(str(tmp_path / "other.sqlite")).values())


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["{}", "[]"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_a_file_leaves_the_store_consistent(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path_factory.mktemp("changed")
    use(monkeypatch, directory / "store.sqlite")
    lines = read(exported)
    number = data.draw(st.integers(1, len(lines) - 2))
    column = data.draw(st.sampled_from(sorted(lines[number]["row"])))
    lines[number]["row"][column] = data.draw(_VALUES)
    try:
        take(write(directory / "changed.jsonl", lines))
    except StoreError:
        assert not any(rows_of(str(directory / "store.sqlite")).values())
    assert nothing_is_wrong()
    store = open_store(directory / "store.sqlite")
    for experiment in store.experiments.list(archived=True):
        for trial in store.experiments.trials(experiment.id):
            store.metrics(trial.id)
            store.checkpoints(trial.id)
            store.logs(trial.id)
    store.close()


def test_an_export_of_an_older_version_lacks_columns(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an export that was written before runs could have external ids."""
    lines = [line for line in read(exported) if line.get("table") != "checkpoint_uses"]
    lines[0]["schema"] = 3
    for line in lines:
        line.get("row", {}).pop("external_id", None)
    use(monkeypatch, tmp_path / "store.sqlite")
    assert len(take(write(tmp_path / "older.jsonl", lines)).experiments) == 4
    assert nothing_is_wrong()


def test_an_export_of_the_fourth_version_has_another_order_of_tables(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That version wrote metrics and samples before checkpoints, and had no ranks and no outputs."""
    header, *lines, end = read(exported)
    header["schema"] = 4
    order = [
        "experiments",
        "trials",
        "attempts",
        "metrics",
        "samples",
        "checkpoints",
        "logs",
        "requests",
        "leases",
        "journal",
        "snapshots",
        "experiment_requests",
        "models",
        "model_versions",
        "checkpoint_uses",
    ]
    kept = [line for line in lines if line["table"] in order and not line["row"].get("rank")]
    kept.sort(key=lambda line: order.index(line["table"]))
    for line in kept:
        if line["table"] in ("metrics", "samples"):
            del line["row"]["rank"]
    end["end"] = {table: sum(line["table"] == table for line in kept) for table in end["end"] if table in order}
    assert end["end"]["metrics"]
    assert end["end"]["checkpoints"]
    use(monkeypatch, tmp_path / "store.sqlite")
    assert len(take(write(tmp_path / "fourth.jsonl", [header, *kept, end])).experiments) == 4
    assert nothing_is_wrong()
