"""Secrets that a program writes into its log or raises in an error are nowhere in the store, in logs and in exports."""

from __future__ import annotations

import json
from pathlib import Path

from tests.queue.conftest import SEARCH, QueuedSearch

PASSWORD = "correct-horse-battery"
TOKEN = "token-of-the-config"
IN_URL = "password-in-a-url"
PIN = 12345678
PROGRAM = f"""
import os
from determined import core
with core.init() as context:
    context.train.report_validation_metrics(1, {{"loss": float(os.environ["PIN_TOKEN"])}})
print("connecting with", os.environ["DB_PASSWORD"], os.environ["API_TOKEN"], flush=True)
raise ConnectionError(f"no route for {{os.environ['DB_PASSWORD']}} to https://me:{IN_URL}@host/{{os.environ['API_TOKEN']}}")
"""


def test_no_secret_is_stored(searches: QueuedSearch, tmp_path: Path) -> None:
    """It runs in the queue, so that the runner writes its own log."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(PROGRAM)
    searches.model_dir = model
    searches.environment = {"DB_PASSWORD": PASSWORD, "PIN_TOKEN": str(PIN)}
    number = searches.detach(
        searcher={"name": "single", "metric": "loss"},
        hyperparameters={},
        environment={"environment_variables": [f"API_TOKEN={TOKEN}"]},
    )
    assert SEARCH["max_restarts"] == 0
    searches.det("experiment", "wait", str(number), "--polling-interval", "0.1", check=False)
    with searches.opened() as store:
        (trial,) = store.experiments.trials(number)
        assert trial.state == "ERROR"
        shown = "ConnectionError: no route for ******** to https://me:********@host/******** (train.py, line 7)"
        assert trial.reason == shown
        (metric,) = store.metrics(trial.id)
        assert metric.metrics["loss"] == PIN, "metrics are never masked"
        key = store.experiments.get(number).key
        assert "connecting with ******** ********" in [line.text for line in store.logs(trial.id, 0, 100)]
    searches.det("store", "export", str(tmp_path / "export.jsonl"))
    described = searches.det("experiment", "describe", str(number), "--json").stdout
    logged = searches.det("trial", "logs", str(trial.id), "--json").stdout
    data = searches.home / "determined"
    own = {data / "experiments" / key / "config.json"}  # the one place where the secrets of a configuration are stored
    files = [path for path in data.rglob("*") if path.is_file() and path not in own and path.suffix != ".py"]
    texts = {str(path): path.read_bytes().decode(errors="replace") for path in (*files, tmp_path / "export.jsonl")}
    for place, text in {**texts, "describe": described, "logs": logged}.items():
        for secret in (PASSWORD, TOKEN, IN_URL):
            assert secret not in text, f"{secret} is in {place}"
    runner_log = texts[str(data / "experiments" / key / "runner.log")]
    assert "no route for ********" in runner_log
    assert json.loads(described)[0]["trials"][0]["reason"] == trial.reason
