"""The choice of an engine, and `det cluster`, without Ray. Tests with a real cluster are in tests/ray."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from determined.cli.store_access import opened_store
from determined.config.engine import EngineChoice, parse_engine
from determined.config.stored import StoredConfig
from determined.errors import InvalidConfigurationException
from determined.store.experiment_changes import Change, TrialChange
from determined.store.store import Store
from tests.cli.det_command import det, det_json, det_ok
from tests.store.experiments import with_trials

needs_no_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed here")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("local", EngineChoice()),
        ("ray", EngineChoice("ray")),
        (" ray:10.0.0.1:6379 ", EngineChoice("ray", "10.0.0.1:6379")),
        ("ray:[fd00::1]:6379", EngineChoice("ray", "[fd00::1]:6379")),
    ],
)
def test_engines_by_name(text: str, choice: EngineChoice) -> None:
    assert parse_engine(text, "--engine") == choice
    assert parse_engine(str(choice), "--engine") == choice


@pytest.mark.parametrize("text", ["", "slurm", "ray:", "ray:host", "ray:host:port", "local:1", "ray:a b:1"])
def test_unknown_engines(text: str) -> None:
    with pytest.raises(InvalidConfigurationException, match=r"--engine: unknown engine .*local, ray or ray:HOST:PORT"):
        parse_engine(text, "--engine")


def test_an_address_of_the_ray_client_is_rejected_with_advice() -> None:
    result = det("cluster", "--engine", "ray://10.0.0.1:10001")
    assert result.exit_code != 0
    assert "ray job submit" in result.stderr


@needs_no_ray
def test_without_the_extra_it_is_named() -> None:
    result = det("cluster", "--engine", "ray:127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'pip install "determined-pytorch[ray]"' in result.stderr


@needs_no_ray
def test_nothing_is_created_without_the_extra(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("entrypoint: python3 train.py\nsearcher: {name: single, metric: loss, max_length: 1}\n")
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text("")
    result = det("experiment", "create", str(config), str(model), "--engine", "ray")
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'pip install "determined-pytorch[ray]"' in result.stderr
    assert det_json("experiment", "list", "--all") == []


def test_the_engine_of_a_configuration_is_checked(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "entrypoint: model_def:Trial\nresources: {engine: mesos}\nsearcher: {name: single, metric: loss}\n"
    )
    (tmp_path / "model").mkdir()
    result = det("experiment", "create", str(config), str(tmp_path / "model"), "--dry-run")
    assert result.exit_code == 1
    assert "resources.engine: expected an engine: local, ray or ray:HOST:PORT" in result.stderr


def test_the_queue_uses_the_engine_that_activate_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("entrypoint: python3 train.py\nsearcher: {name: single, metric: loss, max_length: 1}\n")
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text("")
    det_ok("experiment", "create", str(config), str(model), "--paused")
    # Without a daemon, which would start it.
    monkeypatch.setattr("determined.queue.submission.add", lambda *args, **options: "running")
    det_ok("experiment", "activate", "1", "--detach", "--engine", "ray:10.0.0.1:6379")
    with opened_store() as store:
        assert StoredConfig(store.experiments.get(1).config).resources.engine == "ray:10.0.0.1:6379"
    monkeypatch.setenv("DET_ENGINE", "local")
    det_ok("experiment", "activate", "1", "--detach")
    with opened_store() as store:
        assert StoredConfig(store.experiments.get(1).config).resources.engine == "local"


def test_a_dry_run_leaves_the_slots_to_the_cluster(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "entrypoint: python3 train.py\nresources: {slots_per_trial: 800}\n"
        "searcher: {name: random, metric: loss, max_length: 1, max_trials: 6, max_concurrent_trials: 3}\n"
    )
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text("")
    create = ("experiment", "create", str(config), str(model), "--dry-run", "--engine", "ray:10.0.0.1:6379")
    assert "Slots: decided by the cluster, 800 for each trial, at most 3 trials at once\n" in det_ok(*create)
    plain = det_json(*create)
    assert (plain["slots"], plain["trials_at_once"]) == (None, 3)
    limited = det_json(*create, "--config", "resources.max_slots=1600")
    assert (limited["slots"], limited["trials_at_once"]) == (None, 2)


def test_nodes_are_named_without_a_terminal(store: Store) -> None:
    lease, (trial_id, other) = with_trials(store, 2)
    store.experiments.commit(lease, Change(trials=(TrialChange(trial_id, nodes=["first", "first", "second"]),)))
    described = det_ok("trial", "describe", str(trial_id))
    assert described.splitlines()[0].split()[-1] == "Nodes"
    assert "first (ranks 0 to 1), second (rank 2)" in described
    assert det_ok("trial", "describe", str(trial_id), "--csv").splitlines()[0].endswith(",Ended,Nodes")
    assert "Nodes" not in det_ok("trial", "describe", str(other))


@pytest.mark.parametrize("source", ["DET_ENGINE", "--engine"])
def test_a_wrong_engine_is_reported_with_its_source(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if source == "DET_ENGINE":
        monkeypatch.setenv("DET_ENGINE", "kubernetes")
    result = det("cluster", *([] if source == "DET_ENGINE" else ["--engine", "kubernetes"]))
    assert f"{source}: unknown engine 'kubernetes'" in result.stderr
    assert result.exit_code == 1
