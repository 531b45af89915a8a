"""The weights of a checkpoint in a file that programs without this library load."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from determined import pytorch
from determined.errors import InvalidCheckpointException
from determined.pytorch.checkpoint.plain_weights import read_weights, write_weights
from tests.cli.det_command import det, det_json, det_ok
from tests.helpers import warm
from tests.helpers.records import announced
from tests.helpers.trials import LineTrial, fit

WITHOUT_US = """
import sys, torch
sys.modules["determined"] = None
model = torch.nn.Linear(1, 1, bias=False)
print(model.load_state_dict(torch.load(sys.argv[1], weights_only=True)), model.weight.item())
"""


class TwoModels(LineTrial):
    """A trial with a second model, whose two layers share their weights."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        layer = torch.nn.Linear(2, 2)
        context.wrap_model(torch.nn.Sequential(layer, layer))


def test_one_model(work_dir: Path, data_home: Path) -> None:
    trial = fit(LineTrial, max_length=pytorch.Batch(2))
    (row,) = announced(data_home)
    done = det_json("checkpoint", "export", row.checkpoint_id, "-o", "model.pt")
    assert (done["models"], done["tensors"]) == (1, len(trial.model.state_dict()))
    assert stat.S_IMODE(Path("model.pt").stat().st_mode) == 0o600
    found = torch.load("model.pt", weights_only=True)
    assert type(found) is dict
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in trial.model.state_dict().items()
    }
    (work_dir / "load.py").write_text(WITHOUT_US)
    loaded = warm.run([sys.executable, "load.py", "model.pt"], cwd=work_dir, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.split()[-1] == str(trial.weight.item())
    refused = det("checkpoint", "export", row.checkpoint_id, "-o", "model.pt")
    assert refused.exit_code == 1
    assert [path.name for path in work_dir.iterdir() if path.name.startswith(".")] == []


def test_several_models_and_shared_tensors_as_safetensors(work_dir: Path, data_home: Path) -> None:
    fit(TwoModels, max_length=pytorch.Batch(1))
    (row,) = announced(data_home)
    said = det_ok("checkpoint", "export", row.checkpoint_id, "--format", "safetensors")
    assert "of 2 models" in said
    found = load_file(f"{row.checkpoint_id}.safetensors")
    assert {"0.weight", "1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias"} <= found.keys()
    assert torch.equal(found["1.0.weight"], found["1.1.weight"])
    det_ok("checkpoint", "export", row.checkpoint_id, "-o", "model.safetensors")
    assert load_file("model.safetensors").keys() == found.keys()


def test_without_the_package(work_dir: Path, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(LineTrial, max_length=pytorch.Batch(1))
    (row,) = announced(data_home)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    refused = det("checkpoint", "export", row.checkpoint_id, "--format", "safetensors")
    assert refused.exit_code == 1
    assert 'pip install "determined-pytorch[safetensors]"' in refused.stderr
    assert not list(work_dir.glob("*.safetensors"))


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_names_of_wrappers_are_removed_in_checkpoints_of_old_releases(prefix: str, tmp_path: Path) -> None:
    weights = {f"{prefix}weight": torch.ones(1), f"{prefix}bias": torch.zeros(1)}
    torch.save({"model_state_dict": weights}, tmp_path / "checkpoint.pt")
    (found,) = read_weights(tmp_path, "old")
    assert set(found) == {"weight", "bias"}


def test_what_is_no_tensor(tmp_path: Path) -> None:
    torch.save({"models_state_dict": [{"weight": torch.ones(1), "extra": 3}]}, tmp_path / "state_dict.pth")
    models = read_weights(tmp_path, "mine")
    with pytest.raises(InvalidCheckpointException, match="checkpoint mine holds 'extra', which is not a tensor"):
        write_weights(models, tmp_path / "out", "safetensors", "mine")
    assert not (tmp_path / "out").exists()
    write_weights(models, tmp_path / "out", "torch", "mine")
    assert torch.load(tmp_path / "out", weights_only=True)["extra"] == 3
