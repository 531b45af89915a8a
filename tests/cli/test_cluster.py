"""The choice of an engine, and `det cluster`, without Ray. Tests with a real cluster are in tests/ray."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from determined.cli.store_access import opened_store
from determined.config.engine import EngineChoice, parse_engine
from determined.config.stored import StoredConfig
from determined.errors import InvalidConfigurationException
from tests.cli.running import det, det_ok

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
