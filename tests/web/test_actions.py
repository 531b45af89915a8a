"""Actions of the page: edits in both databases, and a real search that is paused, activated, forked and deleted."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import pytest

from determined.checkpoint_storage import manifest
from determined.cli.main import main
from determined.experiment.checkpoints import verification
from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.process import Process
from determined.store.store import Store
from tests.helpers.waiting import wait_until
from tests.queue.conftest import SEARCH, QueuedSearch, searches
from tests.store.experiments import begin_managed, new_experiment, with_trials
from tests.store.rows import alive, begin, checkpoint
from tests.web.server import Server, running_server
from tests.web.site import Site
from tests.web.test_routes import filled

__all__ = ["searches"]


def ended(store: Store) -> int:
    lease, _ = with_trials(store, 1)
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="COMPLETED", ended=3.0)))
    store.experiments.release(lease)
    return lease.experiment_id


def test_edits_are_stored(site: Site, store: Store) -> None:
    number = ended(store)
    hostile = "<script>alert('x')</script>\n\u202e"
    for action, text in (("rename", hostile), ("describe", hostile), ("note", hostile), ("label", hostile)):
        (result,) = site.act(action, [number], text=text)
        assert result["ok"], result
    row = store.experiments.get(number)
    assert row.name == hostile.strip()
    assert (row.description, row.notes) == (hostile, hostile)
    assert hostile.strip() in row.labels
    assert site.act("unlabel", [number], text=hostile)[0]["ok"]
    assert hostile.strip() not in store.experiments.get(number).labels
    assert site.act("archive", [number])[0]["ok"]
    assert store.experiments.get(number).archived
    assert site.act("unarchive", [number])[0]["ok"]


def test_each_id_has_a_separate_result(site: Site, store: Store) -> None:
    number = ended(store)
    running, _ = with_trials(store, 1)
    results = site.act("archive", [number, 99, running.experiment_id, number])
    assert [(one["id"], one["ok"]) for one in results] == [(number, True), (99, False), (running.experiment_id, False)]
    assert "99 not found" in results[1]["message"]
    assert "once it has ended" in results[2]["message"]


def test_requests_are_pending_until_the_runner_has_carried_them_out(site: Site, store: Store) -> None:
    lease = store.experiments.acquire(store.experiments.create(new_experiment()), alive())
    (trial,) = store.experiments.commit(lease, Change(new_trials=(new_trial_0(),)))
    begin_managed(store, lease, trial)

    def pending() -> tuple[Any, Any]:
        (experiment,), (row,) = site.get("/api/experiments")["rows"], site.get("/api/trials")["rows"]
        return experiment["pending"], row["pending"]

    assert pending() == (None, None)
    number = store.experiments.request(lease.experiment_id, "pause")
    assert pending() == ("pause", "pause")
    # The runner has begun to pause its trials.
    store.experiments.commit(lease, Change(experiment=ExperimentChange(last_request=number)))
    assert pending() == ("pause", "pause")
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="PAUSED")))
    assert pending() == (None, None)
    number = store.experiments.request(lease.experiment_id, "kill", trial)
    assert pending() == (None, "kill")
    store.experiments.commit(lease, Change(experiment=ExperimentChange(last_request=number)))
    assert pending() == (None, None)


def new_trial_0() -> Any:
    from tests.store.experiments import new_trial

    return new_trial(0)


def test_a_running_program_is_asked_to_stop(site: Site, store: Store) -> None:
    attempt = begin(store, process=alive())
    (experiment,) = site.get("/api/experiments")["rows"]
    assert (experiment["state"], experiment["pending"]) == ("ACTIVE", None)
    (result,) = site.act("cancel", [experiment["id"]])
    assert result["ok"]
    assert [request.kind for request in store.requests(attempt.trial_id)] == ["cancel"]
    assert site.get("/api/experiments")["rows"][0]["pending"] == "cancel"
    assert site.get("/api/trials")["rows"][0]["pending"] == "cancel"


def test_what_runs_elsewhere_is_rejected_with_the_reason(site: Site, store: Store) -> None:
    lease, _ = with_trials(store, 1, process=Process("another-host", 1, "then"))
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="PAUSED")))
    detail = site.get(f"/api/experiments/{lease.experiment_id}")
    actions = {one["name"]: one for one in detail["actions"]}
    for name in ("activate", "fork"):
        assert "its files are on another machine (it was last run on another-host)" in actions[name]["why_not"]
        (result,) = site.act(name, [lease.experiment_id])
        assert not result["ok"]
        assert "not on this machine" in result["message"]
    assert not actions["delete"]["enabled"]


def test_each_action_on_what_another_machine_has_run_works_or_says_why_not(site: Site, store: Store) -> None:
    """The store is shared, the files are not."""
    lease, _ = with_trials(store, 1, process=Process("another-host", 1, "then"))
    number = lease.experiment_id
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="COMPLETED", ended=3.0)))
    store.experiments.release(lease)
    before = store.experiments.get(number)
    actions = {one["name"]: one for one in site.get(f"/api/experiments/{number}")["actions"]}
    for name in ("continue", "extend", "fork"):
        (result,) = site.act(name, [number], max_trials=9, config=["max_restarts=1"])
        assert not result["ok"], name
        assert not actions[name]["enabled"], name
        assert result["message"], name
        assert "another machine" in actions[name]["why_not"] or "number of trials" in actions[name]["why_not"]
        assert "on this machine" in result["message"] or "another machine" in result["message"], result
    assert store.experiments.get(number) == before
    for name, options in (
        ("label", {"text": "x"}),
        ("rename", {"text": "x"}),
        ("note", {"text": "x"}),
        ("archive", {}),
    ):
        assert site.act(name, [number], **options)[0]["ok"], name
    assert site.act("unarchive", [number])[0]["ok"]


def test_checkpoints_are_registered_and_deleted(site: Site, store: Store) -> None:
    attempt = begin(store)
    store.write([checkpoint(attempt, 1, "first"), checkpoint(attempt, 2, "second")])
    (refused,) = site.act("register", ["first"], text="digits")
    assert "no model named 'digits'" in refused["message"]
    (result,) = site.act("register", ["first"], text="digits", create_model=True)
    assert result["ok"], result
    (model,) = site.get("/api/models")["rows"]
    detail = site.get(f"/api/models/{model['id']}")
    assert detail["versions"][0]["checkpoint"]["id"] == "first"
    rows = {row["id"]: row for row in site.get(f"/api/trials/{attempt.trial_id}/checkpoints")["rows"]}
    assert rows["first"]["registered"] == ["digits 1"]
    body = {"action": "delete_checkpoint", "ids": ["first"]}
    assert "registered as version 1" in site.post("/api/actions/preview", body)["refused"][0]
    assert not site.act("delete_checkpoint", ["first"])[0]["ok"]
    for name in ("../first", "", "a" * 300, "nothing"):
        answer = site.ask("POST", "/api/actions", site.bearer, json={"action": "delete_checkpoint", "ids": [name]})
        assert answer.status_code == 422 or not answer.json()["results"][0]["ok"]
    verified = site.ask("POST", "/api/checkpoints/..%2fx/verify", site.bearer, json={})
    assert verified.status_code in (400, 404)


def test_a_changed_byte_of_a_checkpoint_is_found(site: Site, store: Store, tmp_path: Path) -> None:
    attempt = begin(store)
    directory = tmp_path / "checkpoints" / "saved"
    directory.mkdir(parents=True)
    (directory / "weights.bin").write_bytes(b"abc")
    manifest.write(directory)
    sizes = {path.name: path.stat().st_size for path in directory.iterdir()}
    row = checkpoint(attempt, 1, "saved")._replace(storage=str(directory.parent), resources=sizes)
    store.write([row])
    found = site.post("/api/checkpoints/saved/verify", {})
    size = sum(sizes.values())
    assert found == {"ok": True, "found": True, "hashed": True, "problems": [], "files": 2, "bytes": size}
    (directory / "weights.bin").write_bytes(b"abd")
    found = site.post("/api/checkpoints/saved/verify", {})
    assert (found["ok"], found["found"], found["problems"]) == (
        False,
        True,
        ["checkpoint saved is damaged: the content of weights.bin was changed"],
    )
    (directory / "weights.bin").unlink()
    (directory / "weights.bin").symlink_to("/etc/passwd")
    assert not site.post("/api/checkpoints/saved/verify", {})["ok"]
    assert site.post("/api/checkpoints/none/verify", {}, 404)["error"]


def test_few_checkpoints_are_verified_at_once(site: Site, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each took minutes: others are refused, everything else is answered."""
    begun, may_end = threading.Semaphore(0), threading.Event()

    def long_verification(*_: object) -> bool:
        begun.release()
        return may_end.wait()

    monkeypatch.setattr(verification, "verify_checkpoint", long_verification)
    store.write([checkpoint(begin(store), 1, "large")])
    path = "/api/checkpoints/large/verify"
    with ThreadPoolExecutor(2) as pool:
        try:
            running = [pool.submit(site.post, path, {}) for _ in range(2)]
            for _ in running:
                assert begun.acquire(timeout=60)
            assert "2 checkpoints are being verified" in site.post(path, {}, 409)["error"]
            assert site.get("/api/trials")["rows"]
        finally:
            may_end.set()
        assert all(one.result()["ok"] for one in running)
    assert site.post(path, {})["ok"]


def test_a_checkpoint_whose_files_are_elsewhere_is_not_damaged(site: Site, store: Store, tmp_path: Path) -> None:
    attempt = begin(store)
    rows = [checkpoint(attempt, step, name) for step, name in ((1, "elsewhere"), (2, "deleted"))]
    store.write([row._replace(storage=str(tmp_path / "other machine")) for row in rows])
    store.upkeep.mark_deleted(["deleted"])
    for name, problem in (("elsewhere", "no checkpoint elsewhere in"), ("deleted", "was deleted")):
        answer = site.post(f"/api/checkpoints/{name}/verify", {})
        assert (answer["ok"], answer["found"]) == (False, False)
        assert problem in answer["problems"][0]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "explode", "ids": [1]},
        {"action": "pause", "ids": []},
        {"action": "pause", "ids": ["1"]},
        {"action": "pause", "ids": [-1]},
        {"action": "pause", "ids": [2**70]},
        {"action": "register", "ids": [1]},
        {"action": "pause", "ids": [1], "options": {"unknown": 1}},
        {"action": "pause", "ids": [1], "more": 1},
        {"action": "extend", "ids": [1], "options": {"max_trials": 0}},
        {"action": "label", "ids": [1], "options": {"text": "a\0b"}},
        {"action": "fork", "ids": [1], "options": {"config": ["name=\0"]}},
    ],
)
def test_requests_that_make_no_sense_are_refused(site: Site, store: Store, body: Any) -> None:
    assert site.post("/api/actions", body, 422)["error"]


def test_a_deletion_names_what_goes(site: Site, store: Store, tmp_path: Path) -> None:
    from determined.experiment.files import ExperimentFiles

    number = ended(store)
    files = ExperimentFiles.for_key(store.experiments.get(number).key)
    files.code.mkdir()
    (files.code / "model.py").write_text("x" * 1000)
    preview = site.post("/api/actions/preview", {"action": "delete", "ids": [number]})
    assert f"Delete experiment {number} (mine, COMPLETED) with 1 trial and 0 checkpoints?" in preview["text"]
    assert preview["bytes"] == 1000
    assert preview["items"] == [{"name": str(files.root), "bytes": 1000}]
    assert preview["refused"] == []
    assert files.root.exists()
    (result,) = site.act("delete", [number])
    assert result["ok"], result
    assert not files.root.exists()
    assert site.get("/api/experiments")["rows"] == []
    running, _ = with_trials(store, 1)
    body = {"action": "delete", "ids": [running.experiment_id]}
    assert "cancel or kill it first" in site.post("/api/actions/preview", body)["refused"][0]
    site.post("/api/actions/preview", {"action": "pause", "ids": [running.experiment_id]}, 422)


def test_a_search_continues_in_the_queue_without_the_page(searches: QueuedSearch, static: Path) -> None:
    number = searches.detach()
    searches.slow_down(number)
    with running_server(static, searches.env()) as server:
        wait_until(lambda: any(searches.steps(number)))
        assert server.act("pause", [number])[0]["ok"]
        wait_until(lambda: _row(server, number)["state"] == "PAUSED")
        assert _row(server, number)["pending"] is None
        (activated,) = server.act("activate", [number])
        assert activated["ok"], activated
        (fork,) = server.act("fork", [number], text="forked", config=["hyperparameters.lr=0.5"])
        assert fork["ok"], fork
        assert _row(server, fork["created"])["parent"] == number
        searches.hurry(number)
        server.interrupt()
    for one in (number, fork["created"]):
        searches.wait(one)
    with running_server(static, searches.env()) as server:
        assert {_row(server, one)["state"] for one in (number, fork["created"])} == {"COMPLETED"}
        trials = server.get(f"/api/trials?experiment={fork['created']}")["rows"]
        assert {row["hparams"]["lr"] for row in trials} == {0.5}
        assert server.get(f"/api/experiments/{fork['created']}/code")["files"][0]["path"] == "train.py"
        (extended,) = server.act("extend", [number], max_trials=4)
        assert extended["ok"], extended
        searches.wait(number)
        assert _row(server, number)["trials"] == 4
        checkpoints = server.get(f"/api/experiments/{number}/checkpoints")["rows"]
        assert checkpoints
        good = server.ask("POST", f"/api/checkpoints/{checkpoints[0]['id']}/verify", {}).json()
        assert (good["ok"], good["hashed"], good["problems"]) == (True, False, [])
        (state,) = searches.home.rglob(f"{checkpoints[0]['id']}/state.json")
        state.write_text("longer than before")
        damaged = server.ask("POST", f"/api/checkpoints/{checkpoints[0]['id']}/verify", {}).json()
        assert not damaged["ok"]
        assert "state.json has 18 bytes instead of" in damaged["problems"][0]
        assert server.act("delete", [number])[0]["ok"]


def test_a_running_search_is_killed_trial_by_trial_canceled_and_killed(searches: QueuedSearch, static: Path) -> None:
    canceled, killed = (searches.detach(searcher={**SEARCH["searcher"], "max_concurrent_trials": 1}) for _ in range(2))
    for number in (canceled, killed):
        searches.slow_down(number)
    with running_server(static, searches.env()) as server:
        wait_until(lambda: any(searches.steps(canceled)) and any(searches.steps(killed)))
        (first,) = [row["id"] for row in _trials(server, canceled) if row["state"] == "RUNNING"]
        assert _enabled(server.get(f"/api/trials/{first}"), "kill_trial")
        (result,) = server.act("kill_trial", [first])
        assert result["ok"], result
        wait_until(lambda: server.get(f"/api/trials/{first}")["row"]["state"] == "CANCELED")
        assert server.get(f"/api/trials/{first}")["row"]["pending"] is None
        assert not _enabled(server.get(f"/api/trials/{first}"), "kill_trial")
        assert "already" in server.act("kill_trial", [first])[0]["message"]
        # The search continues with the next trial.
        wait_until(lambda: any(row["batches"] for row in _trials(server, canceled) if row["id"] != first))
        results = [*server.act("cancel", [canceled]), *server.act("kill", [killed])]
        assert [result["ok"] for result in results] == [True, True], results
        for number in (canceled, killed):
            wait_until(lambda: _row(server, number)["state"] == "CANCELED")  # noqa: B023
            assert _row(server, number)["pending"] is None
            assert {row["state"] for row in _trials(server, number)} == {"CANCELED"}
            detail = server.get(f"/api/experiments/{number}")
            assert not any(_enabled(detail, name) for name in ("pause", "cancel", "kill"))
        # A canceled trial saves first, a killed one does not.
        assert server.get(f"/api/experiments/{canceled}/checkpoints")["rows"]
        assert server.get(f"/api/experiments/{killed}/checkpoints")["rows"] == []
        wait_until(lambda: searches.runners() == [])


def _trials(server: Server, number: int) -> list[Any]:
    rows: list[Any] = server.get(f"/api/trials?experiment={number}")["rows"]
    return rows


def _enabled(detail: Any, action: str) -> bool:
    (found,) = [one for one in detail["actions"] if one["name"] == action]
    assert found["enabled"] == (found["why_not"] is None)
    return bool(found["enabled"])


def test_commands_and_programs_that_are_copied_work(site: Site, store: Store, place: str) -> None:
    search, trials = filled(store)
    run = begin(store)
    standalone = store.experiments.trial(run.trial_id).experiment_id
    details = [
        *(site.get(f"/api/experiments/{number}") for number in (search, standalone)),
        *(site.get(f"/api/trials/{number}") for number in (*trials, run.trial_id)),
    ]
    commands = [command for detail in details for command in detail["commands"].values()]
    shown = {command.rpartition(" ")[0] for command in commands}
    assert {"det experiment kill", "det experiment fork", "det trial describe", "det trial kill"} <= shown
    for command in commands:
        _parse(shlex.split(command))
    with pytest.raises(click.UsageError):
        _parse(["det", "trial", "describe", "1", "--no-such-option"])
    programs = [program for detail in details[:1] + details[2:3] for program in detail["python"].values()]
    assert len(programs) == 6
    source = "import json, sys\nfor program in json.load(sys.stdin):\n    exec(program, {})"
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", source],
        env={**os.environ, "DET_STORE": place},
        input=json.dumps(programs),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "{'lr': 0.0}" in done.stdout  # the hyperparameters of a trial
    assert "training {" in done.stdout  # a report
    assert "<script>alert(1)</script>" in done.stdout  # a log line


def _parse(words: list[str]) -> None:
    """Parse a command with its options and arguments, as `det` does before it runs one."""
    assert words[0] == "det"
    command: click.Command = main
    context = command.make_context("det", words[1:])
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command = found
        context = command.make_context(name, rest, parent=context)


def _row(server: Server, number: int) -> Any:
    return server.get(f"/api/experiments/{number}")["row"]


def test_a_trial_of_a_paused_search_can_be_killed(site: Site, store: Store) -> None:
    lease, (trial,) = with_trials(store, 1)
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="PAUSED")))
    store.experiments.release(lease)
    detail = site.get(f"/api/trials/{trial}")
    assert _enabled(detail, "kill_trial")
    (result,) = site.act("kill_trial", [trial])
    assert result["ok"]
    assert "when the experiment is activated" in result["message"]
    assert site.get("/api/trials")["rows"][0]["pending"] == "kill"


def test_an_ended_trial_cannot_be_killed(site: Site, store: Store) -> None:
    lease, (trial,) = with_trials(store, 1)
    store.experiments.commit(lease, Change(trials=(TrialChange(trial, state="COMPLETED", ended=3.0),)))
    detail = site.get(f"/api/trials/{trial}")
    assert not _enabled(detail, "kill_trial")
    (result,) = site.act("kill_trial", [trial])
    assert (result["ok"], "it has already ended (COMPLETED)" in result["message"]) == (False, True)
