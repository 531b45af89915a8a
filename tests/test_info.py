"""`get_cluster_info`: from the environment, from the run that is open, or None."""

from __future__ import annotations

import json
import os
from dataclasses import FrozenInstanceError, replace

import pytest

import determined as det
from determined import core, info
from determined.core.initialize import open_run
from determined.errors import InvalidConfigurationException
from determined.info import ClusterInfo, RendezvousInfo, ResourcesInfo, TrialInfo


@pytest.fixture
def trial_info() -> ClusterInfo:
    return ClusterInfo(
        master_url="http://localhost:8080",
        cluster_id="c1",
        agent_id="node-7",
        slot_ids=[2, 3],
        task_id="5.abc",
        allocation_id="5.abc.1",
        session_token="very-secret",
        task_type="TRIAL",
        _latest_checkpoint="ckpt-1",
        _trial_info=TrialInfo(
            trial_id=9,
            experiment_id=5,
            trial_seed=123,
            hparams={"lr": 0.1, "nested": {"a": [1, None]}},
            _config={"data": {"path": "here"}, "debug": True},
            _steps_completed=40,
            _trial_run_id=2,
            _debug=True,
            _inter_node_network_interface="eth1",
        ),
        _rendezvous_info=RendezvousInfo(["10.0.0.1", "10.0.0.2"], 1, [2, 2]),
        _resources_info=ResourcesInfo(["GPU-1", "GPU-2"]),
    )


def test_a_trial_survives_the_way_through_the_environment(trial_info: ClusterInfo) -> None:
    env = info.to_env(trial_info)
    assert all(isinstance(value, str) for value in env.values())
    assert info.from_env(env) == trial_info


def test_optional_variables_are_absent_when_there_is_nothing_to_say(trial_info: ClusterInfo) -> None:
    plain = replace(trial_info, _latest_checkpoint=None)
    env = info.to_env(plain)
    assert "DET_LATEST_CHECKPOINT" not in env
    assert info.from_env(env) == plain


def test_the_environment_is_read_at_each_call(trial_info: ClusterInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    assert det.get_cluster_info() is None
    for name, value in info.to_env(trial_info).items():
        monkeypatch.setenv(name, value)
    found = det.get_cluster_info()
    assert found is not None
    assert found.trial.trial_id == 9
    assert found.user_data == {"path": "here"}
    monkeypatch.setenv("DET_TASK_TYPE", "NOTEBOOK")
    assert det.get_cluster_info() is None


def test_the_open_run_is_the_answer_and_is_forgotten_at_its_end() -> None:
    with core.init() as context:
        assert det.get_cluster_info() is context.info
        with core.init() as inner:
            assert det.get_cluster_info() is inner.info
        assert det.get_cluster_info() is context.info
    assert det.get_cluster_info() is None


def test_a_described_trial_wins_over_the_open_run(trial_info: ClusterInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    with core.init():
        for name, value in info.to_env(trial_info).items():
            monkeypatch.setenv(name, value)
        found = det.get_cluster_info()
        assert found is not None
        assert found.trial.experiment_id == 5


def test_the_session_token_is_never_shown(trial_info: ClusterInfo) -> None:
    assert trial_info.session_token == "very-secret"
    assert "very-secret" not in repr(trial_info)
    assert "very-secret" not in str(trial_info)


def test_other_tasks_have_no_trial(trial_info: ClusterInfo) -> None:
    shell = replace(trial_info, task_type="SHELL")
    with pytest.raises(RuntimeError, match="SHELL"):
        _ = shell.trial
    assert shell.latest_checkpoint is None
    assert shell.user_data == {}


def test_info_cannot_be_changed(trial_info: ClusterInfo) -> None:
    with pytest.raises(FrozenInstanceError):
        trial_info.cluster_id = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [("DET_TRIAL_ID", "nine"), ("DET_HPARAMS", "{"), ("DET_SLOT_IDS", '{"a": 1}'), ("DET_TRIAL_SEED", None)],
)
def test_a_bad_variable_is_named(trial_info: ClusterInfo, name: str, value: str | None) -> None:
    env = info.to_env(trial_info)
    if value is None:
        del env[name]
    else:
        env[name] = value
    with pytest.raises(InvalidConfigurationException, match=name):
        info.from_env(env)


def test_a_standalone_run_knows_everything_about_itself() -> None:
    with open_run(hparams={"lr": 1}, exp_conf={"data": {"x": 1}}, trial_seed=77) as context:
        found = context.info
        assert found.task_type == "TRIAL"
        assert (found.trial.trial_id, found.trial.experiment_id) == (0, 0)
        assert found.trial.trial_seed == 77
        assert found.trial.hparams == {"lr": 1}
        assert found.user_data == {"x": 1}
        assert found.latest_checkpoint is None
        assert found.container_addrs == ["127.0.0.1"]
        assert found.container_slot_counts == [1]
        assert found.container_rank == 0
        assert (found.slot_ids, found.gpu_uuids) == ([0], []), "one CPU slot"
        assert len(found.session_token) >= 32
        assert found.allocation_id.startswith(found.task_id)
        assert json.dumps(info.to_env(found))
    assert "DET_TRIAL_ID" not in os.environ
