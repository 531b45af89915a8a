"""Answers of the reading routes, from both databases: types, hostile text, missing objects."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.rows import LogRow, MetadataRow
from determined.store.states import TRIAL_ENDED, TrialState
from determined.store.store import Store
from determined.store.substores.registry import Edit
from determined.web.openapi import answer_type, document, documented_routes
from determined.web.tables.stored_json import loads
from tests.store.experiments import begin_managed, held_experiment, new_trial, with_trials
from tests.store.rows import begin, checkpoint, metric
from tests.web.site import Site

HOSTILE = [
    "<script>alert(1)</script>",
    "\"quotes\" and 'others' `here`",
    "line\nbreak\r\ttab",
    "\x1b[31mred\x1b[0m \x07",
    "\u202eright to left\u2066",
    "x" * 10_000,
    "\ud800 half",
    "../../etc/passwd",
]


def answers_are_valid(site: Site, paths: list[str]) -> None:
    """Check that the answers have the types in the OpenAPI document, from which those of the page are generated."""
    routes = documented_routes()
    for path in paths:
        (route,) = [one for one in routes if one.path_regex.match(path.partition("?")[0])][:1]
        TypeAdapter(answer_type(route)).validate_python(_read_back(site.get(path)))


def _read_back(value: Any) -> Any:
    """Read an answer; numbers that JSON does not have are texts in it."""
    if isinstance(value, dict):
        return {key: _read_back(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_read_back(inner) for inner in value]
    return (
        {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value, value)
        if isinstance(value, str)
        else value
    )


def filled(store: Store) -> tuple[int, list[int]]:
    """Create a search of three trials, of which one has reported."""
    lease, trials = with_trials(store, 3, name=HOSTILE[0], labels=HOSTILE[:3])
    attempt = begin_managed(store, lease, trials[0], passed={"lr": 0.25})
    rows: list[Any] = [metric(attempt, "training", step, {"loss": 1.0 / step, "a/b, c": step}) for step in range(1, 40)]
    rows += [metric(attempt, "training", 40, {"loss": math.nan, "text": HOSTILE[0]})]
    rows += [metric(attempt, "validation", 20, {"error": 0.5}), metric(attempt, "validation", 40, {"error": 0.25})]
    rows += [metric(attempt, "system/gpu", None, {"util": 0.5})]
    rows += [checkpoint(attempt, 20), checkpoint(attempt, 40)]
    rows += [
        LogRow(trials[0], attempt.number, 0, number, "stdout", text, 3000.0 + number, "INFO")
        for number, text in enumerate(HOSTILE)
    ]
    store.write(rows)
    store.experiments.commit(
        lease,
        Change(
            trials=(
                TrialChange(trials[1], state="ERROR", reason="ValueError: <b>no</b> (train.py, line 3)", ended=5.0),
                TrialChange(trials[2], state="COMPLETED", ended=6.0),
            )
        ),
    )
    return lease.experiment_id, trials


def test_answers_have_the_documented_types(site: Site, store: Store) -> None:
    experiment, trials = filled(store)
    begin(store)
    answers_are_valid(
        site,
        [
            "/api/changes",
            "/api/trials",
            "/api/trials?metric=training/loss&metric=training/a/b,+c&archived=1",
            f"/api/trials?experiment={experiment}",
            f"/api/trials/{trials[0]}",
            "/api/experiments",
            f"/api/experiments/{experiment}",
            "/api/metrics",
            f"/api/metrics?experiment={experiment}",
            f"/api/metrics?trial={trials[0]}",
            f"/api/experiments/{experiment}/checkpoints",
            f"/api/trials/{trials[0]}/checkpoints",
            f"/api/experiments/{experiment}/code",
            f"/api/experiments/{experiment}/code/diff?other={experiment}",
            f"/api/logs?trial={trials[0]}",
            f"/api/logs?experiment={experiment}&text=right",
            f"/api/compare?trials={trials[0]},{trials[1]}",
            "/api/queue",
            "/api/models",
            "/api/failures",
            f"/api/experiments/{experiment}/decisions",
        ],
    )


def test_a_trial_shows_what_was_reported(site: Site, store: Store) -> None:
    experiment, trials = filled(store)
    row = next(row for row in site.get("/api/trials")["rows"] if row["id"] == trials[0])
    assert (row["experiment"], row["experiment_name"], row["labels"]) == (experiment, HOSTILE[0], HOSTILE[:3])
    assert (row["best"], row["latest"], row["batches"], row["state"]) == (0.25, 0.25, 40, "RUNNING")
    assert (row["hparams"], row["differing_hparams"]) == ({"lr": 0.25}, ["lr"])
    assert (row["checkpoints"], row["checkpoint_bytes"]) == (2, 10)
    detail = site.get(f"/api/trials/{trials[0]}")
    summaries = {one["key"]: one["summary"] for one in detail["metrics"]}
    assert summaries["training/loss"]["nonfinite"] == 1
    assert summaries["training/loss"]["last"] == "NaN"
    assert summaries["training/loss"]["max"] == 1.0
    assert (summaries["training/a/b, c"]["count"], summaries["training/a/b, c"]["max"]) == (39, 39)
    assert summaries["training/text"]["last"] == HOSTILE[0]
    assert [one["numeric"] for one in detail["metrics"] if one["key"] == "training/text"] == [False]
    assert detail["samples"] == ["system%2Fgpu/util"]
    assert detail["assigned_hparams"] == {"lr": 0.0}
    (attempt,) = detail["attempts"]
    assert (attempt["first_batch"], attempt["last_batch"], attempt["host"]) == (0, 40, "another-host")


def test_statistics_are_computed_in_the_background(site: Site, store: Store) -> None:
    _, trials = filled(store)
    path = "/api/trials?metric=validation/error&metric=training/nothing"
    first = site.get(path)
    site.app.state.server.statistics.wait()
    second = site.get(path)
    assert second["pending_summaries"] == 0
    assert first["pending_summaries"] in (0, 3)
    (row,) = [row for row in second["rows"] if row["id"] == trials[0]]
    assert row["metrics"]["validation/error"]["min"] == 0.25
    assert "training/nothing" not in row["metrics"]


def test_experiments_count_failed_beside_good(site: Site, store: Store) -> None:
    experiment, trials = filled(store)
    (row,) = site.get("/api/experiments")["rows"]
    assert (row["trials"], row["failed"], row["states"]) == (3, 1, {"RUNNING": 1, "ERROR": 1, "COMPLETED": 1})
    assert (row["best"], row["best_trial"], row["checkpoint_bytes"]) == (0.25, trials[0], 10)
    (group,) = site.get(f"/api/failures?experiment={experiment}")["groups"]
    assert group["trials"] == [trials[1]]
    assert "<b>no</b>" in group["error"]


def test_counts_failures_and_crosses_agree_on_what_has_failed(site: Site, store: Store) -> None:
    lease, trials = with_trials(store, len(get_args(TrialState)))
    changes = []
    for trial_id, state in zip(trials, get_args(TrialState), strict=True):
        store.write([metric(begin_managed(store, lease, trial_id), "validation", 1, {"error": 0.5})])
        changes.append(TrialChange(trial_id, state=state, ended=5.0 if state in TRIAL_ENDED else None))
    store.experiments.commit(lease, Change(trials=tuple(changes)))
    failed = [one.trial_id for one in changes if one.state in ("ERROR", "INVALID_HP")]
    (row,) = site.get("/api/experiments")["rows"]
    assert (row["failed"], row["states"]["INVALID_HP"]) == (2, 1)
    (group,) = site.get("/api/failures")["groups"]
    assert group["trials"] == failed
    curves = site.get(f"/api/curves?key=validation/error&trials={','.join(map(str, trials))}")["curves"]
    assert [curve["trial"] for curve in curves if curve["failed"]] == failed


def test_archived_experiments_are_hidden_until_asked_for(site: Site, store: Store) -> None:
    lease, _ = with_trials(store, 1)
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="COMPLETED", ended=3.0)))
    store.upkeep.set_archived(lease.experiment_id, True)
    assert site.get("/api/trials")["rows"] == site.get("/api/experiments")["rows"] == []
    assert (
        len(site.get("/api/trials?archived=1")["rows"]) == len(site.get("/api/experiments?archived=true")["rows"]) == 1
    )
    assert site.get(f"/api/experiments/{lease.experiment_id}")["row"]["archived"]


def test_odd_hyperparameters_are_shown(site: Site, store: Store) -> None:
    odd = {
        "nested": {"deep": {"lr": 0.1}, "empty": {}},
        "nan": math.nan,
        "infinite": -math.inf,
        "huge": 10**40,
        "list": [1, {"a": math.inf}],
        "text": "\ud800",
        "none": None,
        "api_token": "s3cret",
    }
    lease, _ = with_trials(store, 0)
    store.experiments.commit(lease, Change(new_trials=(new_trial(0, hparams=odd),)))
    (row,) = site.get("/api/trials")["rows"]
    assert row["hparams"] == {
        "nested.deep.lr": 0.1,
        "nested.empty": {},
        "nan": "NaN",
        "infinite": "-Infinity",
        "huge": str(10**40),
        "list": [1, {"a": "Infinity"}],
        "text": "\ud800",
        "none": None,
        "api_token": "********",
    }
    assert site.get(f"/api/compare?trials={row['id']}")["trials"][0]["hparams"] == row["hparams"]


def test_metadata_and_settings_with_secrets_and_numbers_that_json_does_not_have(site: Site, store: Store) -> None:
    odd = {"lr": math.nan, "list": [-math.inf], "api_token": "s3cret"}
    shown = {"lr": "NaN", "list": ["-Infinity"], "api_token": "********"}
    lease, (trial,) = with_trials(store, 1, config={"searcher": {"name": "single", "metric": "error"}, "data": odd})
    attempt = begin_managed(store, lease, trial)
    store.write([checkpoint(attempt, 4, "odd")._replace(metadata=odd), MetadataRow(trial, 1, odd)])
    model = store.registry.create_model("m", metadata=odd)
    version = store.registry.register(model.id, "odd")
    store.registry.edit_version(model.id, version.number, Edit(set_metadata=odd))
    assert site.get(f"/api/trials/{trial}")["metadata"] == shown
    assert [row["metadata"] for row in site.get(f"/api/trials/{trial}/checkpoints")["rows"]] == [shown]
    assert [row["metadata"] for row in site.get("/api/models")["rows"]] == [shown]
    found = site.get(f"/api/models/{model.id}")
    assert [found["row"]["metadata"], found["versions"][0]["metadata"]] == [shown, shown]
    assert site.get(f"/api/experiments/{lease.experiment_id}")["config"]["data"] == shown
    settings = {row["name"]: row["values"] for row in site.get(f"/api/compare?trials={trial}")["config"]}
    assert settings["data.lr"] == ["NaN"]


def test_attempts_name_the_checkpoint_that_they_started_from(site: Site, store: Store) -> None:
    lease = held_experiment(store)
    new = new_trial(0, source_checkpoint_id="of-another-trial")
    (trial,) = store.experiments.commit(lease, Change(new_trials=(new,)))
    begin_managed(store, lease, trial)
    second = begin_managed(store, lease, trial)  # the first one saved no checkpoint
    store.write([checkpoint(second, 4, "own")])
    begin_managed(store, lease, trial, steps=4)
    started = [(one["first_batch"], one["checkpoint"]) for one in site.get(f"/api/trials/{trial}")["attempts"]]
    assert started == [(0, "of-another-trial"), (0, "of-another-trial"), (4, "own")]


def test_large_integers_keep_their_digits(site: Site, store: Store) -> None:
    lease, _ = with_trials(store, 0)
    store.experiments.commit(lease, Change(new_trials=(new_trial(0, hparams={"seed": 2**70 + 1, "small": 2**53}),)))
    (row,) = site.get("/api/trials")["rows"]
    assert row["hparams"] == {"seed": str(2**70 + 1), "small": 2**53}


def test_log_lines_are_paged_searched_and_cut(site: Site, store: Store) -> None:
    attempt = begin(store)
    lines = [f"line {number}" for number in range(30)] + ["y" * 1_000_000]
    store.write(
        [
            LogRow(attempt.trial_id, 1, 0, number, "stderr" if number % 2 else "stdout", text, 100.0 + number, None)
            for number, text in enumerate(lines)
        ]
    )
    base = f"/api/logs?trial={attempt.trial_id}"
    newest = site.get(f"{base}&limit=5")
    assert [line["text"] for line in newest["lines"]][:4] == lines[26:30]
    assert newest["lines"][4]["cut"] == 1_000_000 - len(newest["lines"][4]["text"]) > 0
    assert (newest["older"], newest["newer"]) == (True, False)
    before = site.get(f"{base}&limit=5&before={newest['lines'][0]['id']}")
    assert [line["text"] for line in before["lines"]] == lines[21:26]
    assert before["newer"]
    after = site.get(f"{base}&limit=3&after={before['lines'][0]['id']}")
    assert [line["text"] for line in after["lines"]] == lines[22:25]
    around = site.get(f"{base}&limit=4&around_time=110")
    assert [line["text"] for line in around["lines"]] == lines[8:12]
    assert [line["text"] for line in site.get(f"{base}&text=line+1&limit=3")["lines"]] == lines[17:20]
    found = site.get(f"{base}&text=line+%5B12%5D$&regex=1")
    assert [line["text"] for line in found["lines"]] == ["line 1", "line 2"]
    assert all(line["stream"] == "stderr" for line in site.get(f"{base}&stream=stderr")["lines"])
    assert site.get(f"{base}&text=(&regex=1", 422)["error"].startswith("text: the regular expression")
    store.write([LogRow(attempt.trial_id, 1, 0, len(lines), "stdout", "a" * 60, 200.0, None)])
    assert "took more than" in site.get(f"{base}&text=(a%2B)%2Bb&regex=1", 422)["error"]
    assert "level" in site.get(f"{base}&level=LOUD", 422)["error"]
    site.get("/api/logs", 422)


def test_a_search_that_takes_too_long_says_what_it_has_read_and_can_be_continued(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.web.api.logs._SECONDS_TO_SEARCH", 0)  # each request then reads one page
    monkeypatch.setattr("determined.web.api.logs._PAGE", 20)
    attempt = begin(store)
    texts = {3: "match", 44: "match", 45: "match", 46: "match"}
    store.write(
        [LogRow(attempt.trial_id, 1, 0, n, "stdout", texts.get(n, "other"), 100.0 + n, None) for n in range(100)]
    )
    base = f"/api/logs?trial={attempt.trial_id}&text=^mat&regex=1"
    everything = [line["id"] for line in site.get(f"/api/logs?trial={attempt.trial_id}")["lines"]]
    newest = site.get(base)
    assert (newest["lines"], newest["older"], newest["newer"]) == ([], True, False)
    assert newest["searched"] == {
        "first": {"id": everything[80], "time": 180.0},
        "last": {"id": everything[99], "time": 199.0},
    }
    found: list[int] = []
    answer = newest
    while answer["older"]:
        answer = site.get(f"{base}&before={answer['searched']['first']['id']}&limit=2")
        assert answer["newer"]
        found = [*(line["id"] for line in answer["lines"]), *found]
    assert found == [everything[3], *everything[44:47]]
    found, answer = [], site.get(f"{base}&after={everything[0]}&limit=2")
    while answer["newer"]:
        found += [line["id"] for line in answer["lines"]]
        answer = site.get(f"{base}&after={answer['searched']['last']['id']}&limit=2")
    assert found == [everything[3], *everything[44:47]]
    around = site.get(f"{base}&around_time=150")
    assert [line["id"] for line in around["lines"]] == everything[44:47]
    assert (around["older"], around["newer"]) == (True, True)
    assert [place["time"] for place in around["searched"].values()] == [130.0, 169.0]
    assert site.get(f"/api/logs?trial={attempt.trial_id}&text=match")["searched"] is None


def test_a_log_is_downloaded_as_text(site: Site, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("determined.web.api.log_file._PAGE", 3)
    lease = held_experiment(store)
    trials = store.experiments.commit(lease, Change(new_trials=(new_trial(0), new_trial(1))))
    long = "y" * 100_000
    for number, text in enumerate(["a", HOSTILE[6], long, "d"]):
        store.write([LogRow(trial, 1, 2, number, "stdout", text, 100.0 + number, None) for trial in trials])
    answer = site.ask("GET", f"/api/trials/{trials[1]}/log", site.bearer)
    assert answer.headers["content-disposition"] == f'attachment; filename="trial_{trials[1]}_log.txt"'
    time = "1970-01-01T00:01:4{}.000+00:00"
    lines = [f"[{time.format(number)}] [rank=2] {text}" for number, text in enumerate(["a", "?", long, "d"])]
    assert re.sub(r"\\\\?ud800 half", "?", answer.text).splitlines() == lines
    both = site.ask("GET", f"/api/experiments/{lease.experiment_id}/log", site.bearer).text.splitlines()
    assert both[:2] == [f"[{time.format(0)}] [trial {trial}] [rank=2] a" for trial in trials]
    assert len(both) == 8
    for unknown in ("/api/trials/77/log", "/api/experiments/77/log"):
        assert site.ask("GET", unknown, site.bearer).status_code == 404


def test_the_log_of_an_experiment_is_limited_to_some_trials(site: Site, store: Store) -> None:
    lease = held_experiment(store)
    trials = store.experiments.commit(lease, Change(new_trials=tuple(new_trial(number) for number in range(4))))
    for line in range(3):
        store.write(
            [LogRow(trial, 1, 0, line, "stdout", f"{trial} {'abc'[line]}", 100.0 + line, None) for trial in trials]
        )
    first, second, _, fourth = trials
    base = f"/api/logs?experiment={lease.experiment_id}"

    def shown(query: str) -> list[str]:
        return [line["text"] for line in site.get(base + query)["lines"]]

    assert shown(f"&trials={first}-{second},{fourth}&text=b") == [f"{trial} b" for trial in (first, second, fourth)]
    newest = site.get(f"{base}&trials={second}&limit=2")
    assert [line["text"] for line in newest["lines"]] == [f"{second} b", f"{second} c"]
    assert (newest["older"], newest["newer"]) == (True, False)
    assert shown(f"&trials={second}&before={newest['lines'][0]['id']}") == [f"{second} a"]
    assert shown(f"&trials={fourth}&around_time=101&limit=2") == [f"{fourth} a", f"{fourth} b"]
    assert shown(f"&trials={fourth + 1}") == []
    other = begin(store)
    store.write([LogRow(other.trial_id, 1, 0, 0, "stdout", "of another experiment", 1.0, None)])
    assert shown(f"&trials={other.trial_id}") == []
    for odd in ("", "x", "1-", "-1", "3-1", "1--2", "1,2-", "9" * 30):
        assert "expected ids" in site.get(f"{base}&trials={odd}", 422)["error"], odd
    assert "at most" in site.get(f"{base}&trials=1-9000000000000", 422)["error"]
    assert "experiment" in site.get(f"/api/logs?trial={first}&trials={first}", 422)["error"]


@pytest.mark.parametrize(
    ("path", "query"), [("/api/curves", "&key=training/loss"), ("/api/compare", ""), ("/api/logs", "&experiment=1")]
)
def test_as_many_ids_are_answered_as_the_document_says(site: Site, store: Store, path: str, query: str) -> None:
    filled(store)
    (pattern,) = [
        one["schema"]["pattern"] for one in document()["paths"][path]["get"]["parameters"] if one["name"] == "trials"
    ]
    limit = re.search(r"\{0,([0-9]+)\}\$$", pattern)
    assert limit is not None
    most = int(limit[1]) + 1
    for count, refused in ((most, False), (most + 1, True)):
        ids = ",".join(str(number) for number in range(10_000, 10_000 + count))
        answer = site.ask("GET", f"{path}?trials={ids}{query}", site.bearer)
        assert ("at most" in answer.text) == refused
        assert answer.status_code == (422 if refused else 404 if path == "/api/compare" else 200)


def test_unknown_ids_are_named(site: Site, store: Store) -> None:
    for path in (
        "/api/trials/77",
        "/api/trials?experiment=77",
        "/api/experiments/77",
        "/api/experiments/77/checkpoints",
        "/api/experiments/77/code",
        "/api/experiments/77/decisions",
        "/api/trials/77/checkpoints",
        "/api/models/77",
        "/api/logs?trial=77",
        "/api/metrics?experiment=77",
        "/api/failures?experiment=77",
        "/api/compare?trials=77",
    ):
        assert "77 not found" in site.get(path, 404)["error"], path
    for path in (
        f"/api/trials/{2**63}",
        "/api/trials/-1",
        "/api/trials/x",
        "/api/compare?trials=x",
        "/api/compare?trials=",
        f"/api/compare?trials={'0' * 20}{2**64}",
        f"/api/curves?key=a/b&trials={'0' * 5000}1",
    ):
        assert site.get(path, 422)["error"], path


def test_the_code_of_an_experiment_is_shown_without_following_links(site: Site, store: Store, tmp_path: Path) -> None:
    from determined.experiment.files import ExperimentFiles

    first, _ = with_trials(store, 1)
    second, _ = with_trials(store, 1)
    for lease, text in ((first, "a = 1\n"), (second, "a = 2\n")):
        code = ExperimentFiles.for_key(store.experiments.get(lease.experiment_id).key).code
        (code / "pkg").mkdir(parents=True)
        (code / "pkg" / "model.py").write_text(text)
        (code / "same.py").write_text("x")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("s3cret")
    code = ExperimentFiles.for_key(store.experiments.get(first.experiment_id).key).code
    (code / "link").symlink_to(secret)
    (code / "file").symlink_to(secret / "key.txt")
    (code / "data.bin").write_bytes(b"\0\1")
    base = f"/api/experiments/{first.experiment_id}/code"
    assert [one["path"] for one in site.get(base)["files"]] == ["data.bin", "pkg/model.py", "same.py"]
    assert site.get(f"{base}/file?path=pkg/model.py")["text"] == "a = 1\n"
    assert site.get(f"{base}/file?path=data.bin")["text"] is None
    for path in (
        "link/key.txt",
        "file",
        "../config.json",
        "pkg/../../x",
        "/etc/passwd",
        "pkg",
        "none",
        "pkg/",
        "a\\b",
        "",
    ):
        answer = site.ask("GET", f"{base}/file", site.bearer, params={"path": path})
        assert answer.status_code == 404, path
        assert "s3cret" not in answer.text
    (difference,) = site.get(f"/api/experiments/{second.experiment_id}/code/diff?other={first.experiment_id}")["files"][
        1:
    ]
    assert (difference["path"], difference["status"]) == ("pkg/model.py", "changed")
    assert "-a = 1\n+a = 2" in difference["diff"]
    archive = site.ask("GET", f"{base}/archive", site.bearer)
    assert archive.headers["content-disposition"].startswith("attachment")
    assert archive.headers["x-content-type-options"] == "nosniff"
    assert b"s3cret" not in archive.content
    (trial,) = [row["id"] for row in site.get(f"/api/trials?experiment={first.experiment_id}")["rows"]]
    (other,) = [row["id"] for row in site.get(f"/api/trials?experiment={second.experiment_id}")["rows"]]
    compared = site.get(f"/api/compare?trials={trial},{other}")
    assert {one["path"]: one["variants"] for one in compared["code"]} == {
        "data.bin": ["a", None],
        "pkg/model.py": ["a", "b"],
        "same.py": ["a", "a"],
    }


def test_code_is_compared_by_its_complete_content(site: Site, store: Store) -> None:
    from determined.experiment.files import ExperimentFiles

    leases = [with_trials(store, 1)[0] for _ in range(2)]
    large = b"x" * 2**20
    contents = [
        {"a.bin": b"\0a", "b.txt": large + b"a", "c.py": b"x\r\n", "d.py": "\u00e9".encode(), "e": b"\0s", "f": b""},
        {"a.bin": b"\0b", "b.txt": large + b"b", "c.py": b"x\n", "d.py": b"\xe9", "e": b"\0s"},
    ]
    for lease, files in zip(leases, contents, strict=True):
        code = ExperimentFiles.for_key(store.experiments.get(lease.experiment_id).key).code
        code.mkdir()
        for name, content in files.items():
            (code / name).write_bytes(content)
    first, second = (lease.experiment_id for lease in leases)
    answer = site.get(f"/api/experiments/{first}/code/diff?other={second}")
    found = {one["path"]: (one["status"], one["diff"]) for one in answer["files"]}
    assert [(path, status) for path, (status, _) in found.items()] == [
        *((name, "changed") for name in ("a.bin", "b.txt", "c.py", "d.py")),
        ("f", "added"),
    ]
    for name, reason in (
        ("a.bin", "The file contains no text. (2 bytes, SHA-256 "),
        ("b.txt", "The file is too large"),
    ):
        assert all(f"\n{sign}{reason}" in found[name][1] for sign in "-+")
    assert found["c.py"][1] == found["d.py"][1] == "Only line ends or the encoding differ."
    assert found["f"][1] == "The file is empty."
    trials = ",".join(str(row["id"]) for row in site.get("/api/trials")["rows"])
    compared = site.get(f"/api/compare?trials={trials}")["code"]
    assert [one["path"] for one in compared if not one["differs"]] == ["e"]


def test_code_with_too_many_files_is_compared_in_part(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from determined.experiment.code import reading
    from determined.experiment.files import ExperimentFiles

    monkeypatch.setattr(reading, "_MOST_FILES", 2)
    lease, trials = with_trials(store, 1)
    code = ExperimentFiles.for_key(store.experiments.get(lease.experiment_id).key).code
    code.mkdir()
    for name in "abc":
        (code / name).write_text(name)
    remark = "Only the first 2 files are listed and compared."
    base = f"/api/experiments/{lease.experiment_id}/code"
    assert remark in site.get(base)["note"]
    assert remark in site.get(f"{base}/diff?other={lease.experiment_id}")["note"]
    assert remark in site.get(f"/api/compare?trials={trials[0]}")["notes"]


def test_configurations_are_masked(site: Site, store: Store) -> None:
    lease, _ = with_trials(
        store,
        1,
        config={"environment": {"environment_variables": ["API_TOKEN=s3cret"]}, "searcher": {"name": "single"}},
        original="environment:\n  environment_variables:\n    - API_TOKEN=s3cret\n",
    )
    text = json.dumps(site.get(f"/api/experiments/{lease.experiment_id}"))
    assert "API_TOKEN" in text
    assert "s3cret" not in text


def test_failures_mask_what_rows_mask(site: Site, store: Store) -> None:
    searched = {"type": "categorical", "vals": ["s3cret", "0ther"]}
    hyperparameters = {"api_token": searched, "secrets": {"login": searched}, "lr": searched}
    lease = held_experiment(store, config={"searcher": {"name": "random"}, "hyperparameters": hyperparameters})
    values = [
        {"api_token": secret, "secrets": {"login": secret}, "lr": "fast" if secret == "s3cret" else "slow"}
        for secret in ("s3cret", "0ther")
    ]
    new = tuple(new_trial(number, hparams=hparams) for number, hparams in enumerate(values))
    trials = store.experiments.commit(lease, Change(new_trials=new))
    for trial_id in trials:
        begin_managed(store, lease, trial_id)
    failed = TrialChange(trials[0], state="ERROR", reason="ValueError: no", runs=1, ended=5.0)
    completed = TrialChange(trials[1], state="COMPLETED", runs=1, ended=5.0)
    store.experiments.commit(lease, Change(trials=(failed, completed)))
    answer = site.get("/api/failures")
    assert "s3cret" not in json.dumps(answer)
    (group,) = answer["groups"]
    assert group["command"].split(" --config ")[2:] == [
        "'hyperparameters.api_token=\"********\"'",
        "'hyperparameters.lr=\"fast\"'",
        "'hyperparameters.secrets.login=\"********\"'",
    ]
    assert group["command_note"] == "Replace ******** by the secret value of api_token, secrets.login."
    assert [one["text"] for one in group["shared"]] == [
        "api_token = ********",
        "lr = fast",
        "secrets.login = ********",
    ]


@pytest.mark.parametrize("metric_name", ["m" * 5000, "../x", "a b", "é\u202e", "%2F"])
def test_metrics_may_have_any_name(site: Site, store: Store, metric_name: str) -> None:
    attempt = begin(store)
    store.write([metric(attempt, "training", 1, {metric_name: 2.0})])
    (key,) = site.get(f"/api/metrics?trial={attempt.trial_id}")["keys"]
    assert (key["group"], key["name"]) == ("training", metric_name)
    answer = site.ask("GET", "/api/trials", site.bearer, params={"metric": key["key"]})
    assert answer.status_code == 200


def nested(levels: int, kind: type) -> Any:
    value: Any = 0.5
    for _ in range(levels):
        value = {"a": value} if kind is dict else [value]
    return value


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize(("levels", "is_shown"), [(63, True), (900, False)])
def test_nested_hyperparameters_are_shown_or_said_to_be_too_deep(
    site: Site, store: Store, kind: type, levels: int, is_shown: bool
) -> None:
    """A configuration has at most 64 levels; a store that another program has written may have more."""
    hparams = {"deep": nested(levels, kind), "lr": 0.1}
    lease, (other,) = with_trials(store, 1)
    (trial,) = store.experiments.commit(lease, Change(new_trials=(new_trial(1, hparams=hparams),)))
    found = {row["id"]: row["hparams"] for row in site.get("/api/trials")["rows"]}
    detail = site.get(f"/api/trials/{trial}")
    assert detail["row"]["hparams"] == detail["assigned_hparams"] == found[trial]
    assert found[trial]["lr"] == 0.1
    (text,) = [json.dumps(value) for name, value in found[trial].items() if name != "lr"]
    assert ("0.5" in text, "nested deeper" in text) == (is_shown, not is_shown)
    assert other in found
    for path in ("/api/experiments", f"/api/experiments/{lease.experiment_id}", f"/api/compare?trials={trial},{other}"):
        site.get(path)


def test_ten_thousand_trials_are_sent_at_once(site: Site, store: Store) -> None:
    _, trials = with_trials(store, 10_000)
    rows = site.get("/api/trials?metric=validation/error")["rows"]
    assert [row["id"] for row in rows] == sorted(trials, reverse=True)
    site.app.state.server.statistics.wait()
    assert site.get("/api/trials?metric=validation/error")["pending_summaries"] == 0
    (experiment,) = site.get("/api/experiments")["rows"]
    assert experiment["trials"] == 10_000


def test_pages_learn_of_statistics_that_were_computed_in_the_background(site: Site, store: Store) -> None:
    """The store has not changed, but the page shows that they are missing until it asks again."""
    for _ in range(30):
        store.write([metric(begin(store), "training", 1, {"loss": 1.0})])
    path = "/api/trials?metric=training/loss"
    first = site.get(path)
    assert first["pending_summaries"] == 10
    site.app.state.server.statistics.wait()
    assert site.get(f"/api/changes?seen={first['version']}")["changed"]
    second = site.get(path)
    assert second["pending_summaries"] == 0
    assert not site.get(f"/api/changes?seen={second['version']}")["changed"]


def test_metrics_of_old_trials_are_named_once_their_statistics_are_known(site: Site, store: Store) -> None:
    first = begin(store)
    store.write([metric(first, "training", step, {"rare": 1.0} if step == 2 else {"loss": 1.0}) for step in (1, 2, 3)])
    for _ in range(60):
        store.write([metric(begin(store), "training", 1, {"loss": 1.0, "note": "text"})])
    found = site.get("/api/metrics")
    assert [one["key"] for one in found["keys"]] == ["training/loss", "training/note"]
    assert found["unread_trials"] == 61 - 50
    site.get("/api/trials?metric=training/loss")
    site.app.state.server.statistics.wait()
    for _ in range(2):
        found = site.get("/api/metrics")
        assert {one["key"]: one["numeric"] for one in found["keys"]} == {
            "training/loss": True,
            "training/note": False,
            "training/rare": True,
        }
        assert found["unread_trials"] == 0
    store.write([metric(first, "training", 4, {"loss": 1.0, "new": 1.0})])
    assert "training/new" in [one["key"] for one in site.get("/api/metrics")["keys"]]


def test_curves_keep_spikes_and_mark_what_is_not_finite(site: Site, store: Store) -> None:
    attempt = begin(store)
    values = dict.fromkeys(range(1, 5001), 1.0) | {1234: 1e6, 2000: math.nan, 3000: math.inf}
    store.write([metric(attempt, "training", step, {"loss": value}) for step, value in values.items()])
    found = site.get(f"/api/curves?trials={attempt.trial_id},999&key=training/loss&points=100")
    curve, nothing = found["curves"]
    assert (curve["points"], nothing["points"]) == (5000, 0)
    assert len(curve["low"]) == len(curve["high"]) == len(found["x"]) <= 100
    assert max(value for value in curve["high"] if value is not None) == 1e6
    assert [mark["kind"] for mark in curve["marks"]] == ["NaN", "Infinity"]
    near = site.get(f"/api/curves?trials={attempt.trial_id}&key=training/loss&from=1230&to=1240")
    assert (near["from"], near["to"], near["x"]) == (1230, 1240, list(range(1230, 1241)))
    assert near["curves"][0]["low"][4] == 1e6
    profile = site.get(f"/api/trials/{attempt.trial_id}/profile?key=gpu/load")
    assert profile["curves"][0]["points"] == 0


def test_a_repeated_request_gets_a_new_answer_after_every_change(site: Site, store: Store) -> None:
    attempt = begin(store)
    path = f"/api/curves?trials={attempt.trial_id}&key=training/loss"
    for step in (1, 2, 3):
        store.write([metric(attempt, "training", step, {"loss": float(step)})])
        for _ in range(2):
            assert site.get(path)["curves"][0]["low"] == [float(one) for one in range(1, step + 1)]
    store.write([metric(attempt, "training", 3, {"loss": 3.0, "other": 1.0})])
    assert site.get(f"{path}&points=2")["curves"][0]["points"] == 3


def test_polls_are_answered_alike_with_and_without_the_framework(site: Site, store: Store) -> None:
    with_trials(store, 1)
    version = site.get("/api/changes")["version"]
    for seen in ("", version, "0-1"):
        quick, framework = (site.get(f"/api/changes?seen={seen}{more}") for more in ("", "&other=1"))
        assert quick.pop("now") <= framework.pop("now")
        assert quick == framework
        assert quick["changed"] is (seen != version)


def test_decimals_with_many_digits_are_numbers() -> None:
    """Only integers that a browser would round are sent as text."""
    assert loads('{"a": 0.12345678901234567890, "b": [1e-30]}') == {"a": 0.12345678901234568, "b": [1e-30]}
    assert loads('{"a": 12345678901234567890123, "b": [-9223372036854775809]}') == {
        "a": "12345678901234567890123",
        "b": ["-9223372036854775809"],
    }
