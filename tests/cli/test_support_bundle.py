"""`det trial support-bundle`."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import determined
from determined.config.reading.load import parse_yaml
from determined.config.secrets.masking import MASK, mask_secrets
from determined.experiment.files import ExperimentFiles
from determined.store.store import Store
from tests.cli.det_command import DET, det, det_json, det_ok
from tests.cli.filling import Steps, add_trials, end_trial, lead, new_experiment, work
from tests.cli.searched import Searched

FILES = {
    "README.txt",
    "experiment.json",
    "trial.json",
    "config.yaml",
    "original.yaml",
    "metrics.jsonl",
    "checkpoints.json",
    "logs.jsonl",
    "versions.json",
    "environment.json",
}
SECRETS = {
    "hunter2 with spaces",
    "s3-secret/key+",
    "in-a-url",
    "p@ss/word%21",
    "p@ss/word!",
    "of-the-machine",
    'quo"ted\\ñ',
    "-----BEGIN KEY-----\nMIIEvQ\nIBADANBg\n-----END KEY-----",
}
CONFIG: dict[str, Any] = {
    "name": "search",
    "searcher": {"name": "single", "metric": "loss"},
    "environment": {
        "environment_variables": ["API_TOKEN=hunter2 with spaces", "DB=postgresql://me:in-a-url@host/d", "LEVEL=3"],
        "secrets": {"pem": "-----BEGIN KEY-----\nMIIEvQ\nIBADANBg\n-----END KEY-----"},
    },
    "checkpoint_storage": {"type": "s3", "bucket": "b", "access_key": "s3-access", "secret_key": "s3-secret/key+"},
    "data": {"password": 'quo"ted\\ñ'},
}


def unpacked(path: Path, trial: int) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        assert all(member.isfile() and (member.uid, member.uname) == (0, "") for member in members)
        found = {}
        for member in members:
            content = archive.extractfile(member)
            assert content is not None
            found[member.name.removeprefix(f"support-bundle-trial-{trial}/")] = content.read()
    return found


def test_what_is_in_it(searched: Searched) -> None:
    plain = det_json("t", "support-bundle", "1", "-o", "new/trouble.tar.gz")
    path = Path("new/trouble.tar.gz")
    assert plain["path"] == str(path)
    assert plain["size"] == path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    found = unpacked(path, 1)
    assert set(found) == FILES
    assert {name: len(content) for name, content in found.items()} == plain["files"]
    trial = json.loads(found["trial.json"])
    assert (trial["id"], trial["state"], trial["attempts"][0]["state"]) == (1, "COMPLETED", "completed")
    assert json.loads(found["experiment.json"])["name"] == "odd/../name"
    assert parse_yaml("it", found["config.yaml"].decode())["searcher"]["name"] == "random"
    reports = [json.loads(line) for line in found["metrics.jsonl"].splitlines()]
    assert sum(report["group"] == "validation" for report in reports) == 4
    assert [row["batches"] for row in json.loads(found["checkpoints.json"])] == [16, 12, 8, 4]
    lines = [json.loads(line)["text"] for line in found["logs.jsonl"].splitlines()]
    assert sorted(lines) == ["INFO: [1] root: begins", "WARNING: [1] root: looks odd"]
    versions = json.loads(found["versions.json"])
    assert versions["determined_pytorch"] == determined.__version__
    assert versions["torch"].startswith("2.")
    assert "PATH" in json.loads(found["environment.json"])["names"]
    assert searched.trials == (1, 2)
    for name, content in found.items():
        assert name in found["README.txt"].decode() or name == "README.txt"
        assert b"context.train.report_training_metrics" not in content, name  # the code is not in it


@pytest.fixture
def careless(store: Store, monkeypatch: pytest.MonkeyPatch) -> int:
    """Create a trial that wrote every secret that it was given, wherever it could."""
    monkeypatch.setenv("MACHINE_PASSWORD", "of-the-machine")
    monkeypatch.setenv("DATABASE", "postgresql://me:p@ss/word%21@host/d")
    files = ExperimentFiles.for_key("key-of-the-experiment")
    files.write_config(CONFIG)
    files.runner_log.write_text("\n".join(f"WARNING: cannot connect with {secret}" for secret in SECRETS))
    experiment = new_experiment(store, key="key-of-the-experiment", config=mask_secrets(CONFIG))
    lease = lead(store, experiment)
    (trial,) = add_trials(store, lease, [{"password": "of-the-machine", "url": "http://u:in-a-url@host"}])
    said = [line for secret in SECRETS for line in f"it is {secret}!".splitlines()]
    said += ["s3-secret%2Fkey%2B in a URL", "AUTH_TOKEN=never-heard-of", "https://x?token=never-heard-of&page=7"]
    metrics = {"loss": 1.0, "note hunter2 with spaces": "hunter2 with spaces"}
    work(store, lease, trial, Steps(validation=[(1, metrics)], lines=[(0, None, line) for line in said]))
    end_trial(store, lease, trial, "ERROR", reason="OSError: s3-secret/key+ is wrong")
    return trial


def test_no_secret_is_in_it(careless: int, tmp_path: Path) -> None:
    det_ok("t", "support-bundle", str(careless), "-o", str(tmp_path / "out.tar.gz"))
    found = unpacked(tmp_path / "out.tar.gz", careless)
    assert set(found) == {*FILES, "runner.log"}
    parts = {line for secret in SECRETS for line in secret.splitlines()} | {"never-heard-of", "s3-access", "%2Fkey"}
    for name, content in found.items():
        text = content.decode()
        shown = [part for part in parts if part in text or json.dumps(part)[1:-1] in text]
        assert not shown, name
    assert "page=7" in found["logs.jsonl"].decode()
    assert f"OSError: {MASK} is wrong" in found["trial.json"].decode()
    names = json.loads(found["environment.json"])
    assert "MACHINE_PASSWORD" in names["names"]
    assert "MACHINE_PASSWORD" not in names["values"]
    assert b"LEVEL=3" in found["config.yaml"]


def test_the_file_is_complete_or_absent(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a disk is full, no file is added; and no existing file is replaced."""
    lease = lead(store, new_experiment(store))
    (trial,) = add_trials(store, lease, [{}])
    work(store, lease, trial, Steps(lines=[(0, None, os.urandom(100).hex()) for _ in range(1500)]))
    monkeypatch.chdir(tmp_path)
    Path("bundles").mkdir()

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    command = [*DET, "trial", "support-bundle", str(trial), "-o", "bundles/out.tar.gz"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit_file_size)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert os.listdir("bundles") == []

    det_ok("t", "support-bundle", str(trial), "-o", "bundles")
    (written,) = os.listdir("bundles")
    assert written.startswith(f"support-bundle-trial-{trial}-")
    assert len(unpacked(Path("bundles", written), trial)["logs.jsonl"].splitlines()) == 1500
    Path("notes.txt").write_text("mine")
    refused = det("t", "support-bundle", str(trial), "-o", "notes.txt")
    assert (refused.exit_code, refused.stdout, Path("notes.txt").read_text()) == (1, "", "mine")
    assert refused.stderr.endswith("notes.txt already exists: name another file with -o, or remove it\n")
    assert det("t", "support-bundle", "99").stderr == "Trial 99 not found.\n"


def test_a_standalone_run(store: Store, tmp_path: Path) -> None:
    from tests.cli.experiment.test_compare import standalone_run

    experiment = standalone_run(store, {"loss": 1.0})
    (trial,) = store.experiments.trials(experiment)
    det_ok("t", "support-bundle", str(trial.id), "-o", str(tmp_path / "x.tgz"))
    assert set(unpacked(tmp_path / "x.tgz", trial.id)) == FILES
