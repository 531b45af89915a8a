"""load_trial_from_checkpoint_path, and checkpoints of every earlier release."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from determined import pytorch
from determined.checkpoint_storage import manifest
from determined.errors import CheckpointNotFound, InvalidCheckpointException
from tests.helpers import warm
from tests.helpers.trials import HPARAMS, LineTrial, checkpoints, fit


def load(*arguments: Any, **options: Any) -> Any:
    """Load the trial of a checkpoint, whose class mypy does not know."""
    return pytorch.load_trial_from_checkpoint_path(*arguments, **options)


MODEL_DEF = """
import torch
from torch.utils.data import TensorDataset
from determined import pytorch
import settings_of_model_def

class LineTrial(pytorch.PyTorchTrial):
    def __init__(self, context, scale=settings_of_model_def.SCALE):
        self.context = context
        self.scale = scale
        self.model = context.wrap_model(torch.nn.Linear(1, 1, bias=False))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), context.get_hparam("lr")))

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = (self.model(batch[0]) - batch[1]).pow(2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"val_loss": (self.model(batch[0]) - batch[1]).pow(2).mean()}

    def build_training_data_loader(self):
        data = torch.arange(8.0).reshape(8, 1)
        return pytorch.DataLoader(TensorDataset(data, data), batch_size=2)

    build_validation_data_loader = build_training_data_loader

    class Nested:
        pass


class FirstGeneration(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context

    def build_model(self):
        return torch.nn.Linear(1, 1, bias=False)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), 0.001)

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return {"loss": (model(batch[0]) - batch[1]).pow(2).mean()}

    def evaluate_batch(self, batch, model):
        return {"val_loss": (model(batch[0]) - batch[1]).pow(2).mean()}

    build_training_data_loader = build_validation_data_loader = LineTrial.build_training_data_loader
"""

MAIN = """
import sys, torch
import model_def
from determined import pytorch

class MainTrial(model_def.LineTrial):
    pass

if __name__ == "__main__":
    with pytorch.init(hparams={"global_batch_size": 2, "lr": 0.125}) as context:
        trial = MainTrial(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(2), checkpoint_policy="none")
        print("WEIGHT", trial.model.weight.item())
"""


class TestCheckpointsOfTheTrainer:
    def test_the_weights_are_loaded_and_the_constructor_gets_its_context(self, data_home: Path) -> None:
        trained = fit(LineTrial, max_length=pytorch.Batch(3), options={"exp_conf": {"name": "n"}})
        loaded = load(str(checkpoints(data_home)[0]), trial_class=LineTrial)
        assert type(loaded) is LineTrial
        assert torch.equal(loaded.weight, trained.weight)
        assert loaded.context.get_hparams() == HPARAMS
        assert loaded.context.get_experiment_config() == {"name": "n"}
        assert isinstance(loaded.context, pytorch.CheckpointLoadContext)
        assert loaded.context.optimizers[0].state_dict()["state"] == {}

    def test_a_class_of_the_main_script(self, data_home: Path, work_dir: Path, tmp_path: Path) -> None:
        (work_dir / "model_def.py").write_text(MODEL_DEF)
        (work_dir / "settings_of_model_def.py").write_text("SCALE = 3\n")
        (work_dir / "main_of_test.py").write_text(MAIN)
        ran = warm.run([sys.executable, "main_of_test.py"], capture_output=True, text=True, check=True, timeout=60)
        weight = float(ran.stdout.split("WEIGHT ")[1])
        (checkpoint,) = checkpoints(data_home)
        assert json.loads((checkpoint / "load_data.json").read_text())["trial_cls_spec"] == "__main__:MainTrial"

        here, main = os.getcwd(), sys.modules["__main__"]
        modules, path = {*sys.modules}, list(sys.path)
        trial = load(checkpoint)
        assert trial.model.weight.item() == weight
        assert trial.scale == 3
        assert type(trial).__name__ == "MainTrial"
        assert load(checkpoint, trial_kwargs={"scale": 5}).scale == 5
        # Loading leaves nothing behind.
        assert (os.getcwd(), sys.modules["__main__"], sys.path) == (here, main, path)
        assert not {"model_def", "settings_of_model_def", "main_of_test"} & ({*sys.modules} - modules)
        assert not list(checkpoint.rglob("__pycache__"))

    def test_nothing_of_that_name(self, data_home: Path) -> None:
        fit(type("Gone", (LineTrial,), {"__module__": "__main__"}), max_length=pytorch.Batch(1))
        with pytest.raises(ValueError, match="trial_class"):
            load(checkpoints(data_home)[0])

    def test_a_module_that_is_not_there(self, data_home: Path) -> None:
        fit(type("Gone", (LineTrial,), {"__module__": "no_such_module"}), max_length=pytorch.Batch(1))
        with pytest.raises(ValueError, match=r"no_such_module.*trial_class"):
            load(checkpoints(data_home)[0])

    def test_options_of_torch_load(self, data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(1))
        (path,) = checkpoints(data_home)
        assert load(path, LineTrial, torch_load_kwargs={"map_location": "cpu"}).model
        with pytest.warns(FutureWarning, match="torch_load_kwargs"):
            load(path, LineTrial, map_location="cpu")
        with pytest.raises(ValueError, match="torch_load_kwargs"):
            load(path, LineTrial, torch_load_kwargs={}, map_location="cpu")

    @pytest.mark.parametrize("path", ["/no/such/place", "", "a\0b", "x" * 5000])
    def test_no_such_directory(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises((CheckpointNotFound, InvalidCheckpointException), match="checkpoint"):
            load(path or "missing", LineTrial)

    def test_weights_from_inside_a_data_parallel_wrapper(self, data_home: Path) -> None:
        trained = fit(LineTrial, max_length=pytorch.Batch(1))
        (path,) = checkpoints(data_home)
        state = torch.load(path / "state_dict.pth")
        state["models_state_dict"] = [{f"module.{k}": v for k, v in state["models_state_dict"][0].items()}]
        torch.save(state, path / "state_dict.pth")
        manifest.write(path)
        assert torch.equal(load(path, LineTrial).weight, trained.weight)

    def test_another_trial_type_is_worth_a_warning(self, data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
        fit(LineTrial, max_length=pytorch.Batch(1))
        (path,) = checkpoints(data_home)
        about = json.loads((path / "load_data.json").read_text())
        (path / "load_data.json").write_text(json.dumps({**about, "trial_type": "TFKerasTrial"}))
        manifest.write(path)
        load(path, LineTrial)
        assert "TFKerasTrial" in caplog.text


# Old layouts, built as the releases of their time wrote them.


class Numpy1Names(pickle._Pickler):  # in Python; mypy does not know its methods
    """Pickles numpy arrays under the module names of numpy 1, as every old release did."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if getattr(obj, "__module__", "").startswith("numpy._core"):
            module = obj.__module__.replace("numpy._core", "numpy.core")
            self.write(pickle.GLOBAL + f"{module}\n{obj.__name__}\n".encode())  # type: ignore[attr-defined]
            self.memoize(obj)  # type: ignore[attr-defined]
            return
        super().save_global(obj, name)  # type: ignore[misc]

    dispatch: ClassVar[dict[type, Any]] = {
        **pickle._Pickler.dispatch,
        type(len): save_global,
        type(json.dumps): save_global,
    }


class OldPickle:
    """The interface that `torch.save(pickle_module=...)` needs."""

    Pickler = Numpy1Names
    __name__ = "old"

    @staticmethod
    def dump(obj: Any, file: Any, protocol: int = 2) -> None:
        Numpy1Names(file, 2).dump(obj)


WEIGHT = 0.625


def weights() -> OrderedDict[str, torch.Tensor]:
    return OrderedDict(weight=torch.tensor([[WEIGHT]]))


def sgd_state() -> dict[str, Any]:
    group = {"lr": 0.001, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "params": [0]}
    return {"state": {}, "param_groups": [group]}


def rng_state() -> dict[str, Any]:
    return {
        "cpu_rng_state": torch.get_rng_state(),
        "np_rng_state": np.random.get_state(),
        "random_rng_state": random.getstate(),
    }


def lists() -> dict[str, Any]:
    return {
        "models_state_dict": [weights()],
        "optimizers_state_dict": [sgd_state()],
        "lr_schedulers_state_dict": [],
        "callbacks": {},
        "rng_state": rng_state(),
    }


def old_checkpoint(
    directory: Path,
    state: dict[str, Any],
    *,
    file: str = "state_dict.pth",
    metadata: dict[str, Any] | None = None,
    load_data: dict[str, Any] | None = None,
    pickles: dict[str, Any] | None = None,
    zip_file: bool = True,
) -> Path:
    (directory / "code").mkdir(parents=True)
    (directory / "code" / "model_def.py").write_text(MODEL_DEF)
    (directory / "code" / "settings_of_model_def.py").write_text("SCALE = 3\n")
    target = directory / file
    target.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, target, pickle_module=OldPickle, pickle_protocol=2, _use_new_zipfile_serialization=zip_file)
    for name, value in (("metadata.json", metadata), ("load_data.json", load_data)):
        if value is not None:
            (directory / name).write_text(json.dumps(value))
    for name, value in (pickles or {}).items():
        (directory / name).write_bytes(pickle.dumps(value))
    return directory


def config(name: str = "LineTrial") -> dict[str, Any]:
    return {
        "entrypoint": f"model_def:{name}",
        "hyperparameters": {"lr": {"type": "const", "val": 0.001}},
        "resources": {"slots_per_trial": 8},
        "optimizations": {"mixed_precision": "O1"},
    }


OLD_HPARAMS = {"lr": 0.001, "global_batch_size": 2}


def metadata(name: str = "LineTrial", **more: Any) -> dict[str, Any]:
    return {
        "framework": "torch-1.4.0",
        "format": "cloudpickle",
        "hparams": OLD_HPARAMS,
        "experiment_config": config(name),
        "experiment_id": 1,
        "trial_id": 2,
        **more,
    }


LAYOUTS: dict[str, dict[str, Any]] = {
    "0.12.0": {
        "state": {"model_state_dict": weights(), "optimizer_state_dict": sgd_state()},
        "metadata": metadata("FirstGeneration", torch_version="1.4.0", det_version="0.12.0"),
        "zip_file": False,
        "first_generation": True,
    },
    "0.12.0 below pedl/": {
        "state": {"model_state_dict": weights(), "optimizer_state_dict": sgd_state()},
        "file": "pedl/state_dict.pth",
        "metadata": metadata("FirstGeneration"),
        "zip_file": False,
        "first_generation": True,
    },
    "0.12.0 as checkpoint.pt": {
        "state": {"model_state_dict": weights(), "optimizer_state_dict": sgd_state()},
        "file": "checkpoint.pt",
        "metadata": metadata("FirstGeneration"),
        "zip_file": False,
        "first_generation": True,
    },
    "0.12.11": {
        "state": {key: value for key, value in lists().items() if key != "rng_state"},
        "metadata": metadata("FirstGeneration"),
        "zip_file": False,
        "first_generation": True,
    },
    "0.13.13 first generation": {
        "state": lists(),
        "metadata": metadata("FirstGeneration"),
        "zip_file": False,
        "first_generation": True,
    },
    "0.13.13": {"state": lists(), "metadata": metadata(), "zip_file": False},
    "0.17.6": {
        "state": lists(),
        "metadata": metadata(format="pickle"),
        "pickles": {
            "workload_sequencer.pkl": {"trial_id": 0, "last_ckpt": 3, "latest_batch": 3, "step_id": 1, "last_val": 3}
        },
        "batches": 3,
    },
    "0.17.7": {
        "state": lists(),
        "metadata": {"latest_batch": 3, "framework": "torch-1.9.0", "format": "pickle"},
        "load_data": {
            "trial_type": "PyTorchTrial",
            "experiment_config": config(),
            "hparams": OLD_HPARAMS,
            "trial_cls_spec": "model_def:LineTrial",
        },
        "pickles": {
            "workload_sequencer.pkl": {"trial_id": 0, "last_ckpt": 3, "latest_batch": 3, "step_id": 1, "last_val": 3}
        },
        "batches": 3,
    },
    "0.20.0": {
        "state": {**lists(), "rng_state": {**rng_state(), "gpu_rng_state": torch.get_rng_state()}},
        "metadata": {
            "determined_version": "0.20.0",
            "steps_completed": 3,
            "framework": "torch-1.9.0",
            "format": "pickle",
        },
        "load_data": {
            "trial_type": "PyTorchTrial",
            "experiment_config": config(),
            "hparams": OLD_HPARAMS,
            "trial_cls_spec": "model_def:LineTrial",
        },
        "pickles": {
            "workload_sequencer.pkl": {"trial_id": 0, "last_ckpt": 3, "steps_completed": 3, "step_id": 1, "last_val": 3}
        },
        "batches": 3,
    },
    "0.21.0": {
        "state": lists(),
        "metadata": {"determined_version": "0.21.0", "steps_completed": 3, "framework": "torch-1.9.0"},
        "load_data": {
            "trial_type": "PyTorchTrial",
            "experiment_config": None,
            "hparams": OLD_HPARAMS,
            "trial_cls_spec": "model_def:LineTrial",
            "is_trainer": True,
        },
        "pickles": {
            "trial_state.pkl": {
                "trial_id": 0,
                "last_ckpt": 3,
                "step_id": 1,
                "last_val": 3,
                "batches_trained": 3,
                "epochs_trained": 0,
            }
        },
        "batches": 3,
    },
}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(LAYOUTS[request.param])


class TestOldLayouts:
    def test_loads(self, layout: dict[str, Any], tmp_path: Path) -> None:
        layout.pop("batches", None)
        first_generation = layout.pop("first_generation", False)
        loaded = load(old_checkpoint(tmp_path / "old", layout.pop("state"), **layout))
        if first_generation:
            assert isinstance(loaded, torch.nn.Linear)
            assert loaded.weight.item() == WEIGHT
        else:
            assert type(loaded).__name__ == "LineTrial"
            assert loaded.model.weight.item() == WEIGHT
            assert loaded.context.get_hparam("lr") == 0.001
            assert not isinstance(loaded, LineTrial)

    def test_resumes_or_starts_warm(self, layout: dict[str, Any], tmp_path: Path) -> None:
        """A checkpoint with counters continues; without, its weights start a new count."""
        batches = layout.pop("batches", 0)
        layout.pop("first_generation", None)
        path = old_checkpoint(tmp_path / "old", layout.pop("state"), **layout)

        class Looking(LineTrial):
            started_with = 0.0

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                self.started_with = self.started_with or self.weight.item()
                return super().train_batch(batch, epoch_idx, batch_idx)

        trial = fit(Looking, max_length=pytorch.Batch(5), latest_checkpoint=path)
        assert trial.batch_indices == [*range(batches, 5)]
        assert trial.started_with == WEIGHT
        assert trial.optimizer.param_groups[0]["lr"] == 0.001

    def test_a_checkpoint_of_a_cluster_starts_warm(self, tmp_path: Path) -> None:
        layout = dict(LAYOUTS["0.21.0"])
        layout.pop("batches")
        stored = layout["pickles"]["trial_state.pkl"]
        layout["pickles"] = {"trial_state.pkl": {**stored, "trial_id": 17}}
        path = old_checkpoint(tmp_path / "old", layout.pop("state"), **layout)
        trial = fit(LineTrial, max_length=pytorch.Batch(2), latest_checkpoint=path)
        assert trial.batch_indices == [0, 1]

    def test_generators_of_old_releases_are_restored(self, tmp_path: Path) -> None:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        state = lists()
        expected = (random.random(), np.random.rand(), torch.rand(()).item())
        layout = dict(LAYOUTS["0.20.0"])
        layout.pop("batches")
        layout.pop("state")
        path = old_checkpoint(tmp_path / "old", state, **layout)

        class Drawing(LineTrial):
            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                self.draws = (random.random(), np.random.rand(), torch.rand(()).item())
                return super().train_batch(batch, epoch_idx, batch_idx)

        assert fit(Drawing, max_length=pytorch.Batch(4), latest_checkpoint=path).draws == expected

    def test_without_generators_a_warning(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        layout = {key: value for key, value in LAYOUTS["0.12.11"].items() if key != "first_generation"}
        path = old_checkpoint(tmp_path / "old", layout.pop("state"), **layout)
        fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint=path)
        assert "generators" in caplog.text

    def test_old_and_new_key_together(self, tmp_path: Path) -> None:
        path = old_checkpoint(tmp_path / "old", {**lists(), "model_state_dict": weights()}, metadata=metadata())
        with pytest.raises(RuntimeError, match="model_state_dict"):
            fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint=path)

    def test_one_state_for_several_objects(self, tmp_path: Path) -> None:
        class Two(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                context.wrap_model(torch.nn.Linear(1, 1))

        state = {"model_state_dict": weights(), "optimizer_state_dict": sgd_state()}
        path = old_checkpoint(tmp_path / "old", state, metadata=metadata())
        with pytest.raises(RuntimeError, match="model_state_dict"):
            fit(Two, max_length=pytorch.Batch(1), latest_checkpoint=path)

    def test_trial_class_is_honoured(self, tmp_path: Path) -> None:
        layout = dict(LAYOUTS["0.13.13"])
        path = old_checkpoint(tmp_path / "old", layout.pop("state"), **layout)
        assert type(load(path, trial_class=LineTrial)) is LineTrial

    def test_two_checkpoints_with_modules_of_the_same_name(self, tmp_path: Path) -> None:
        layout = dict(LAYOUTS["0.13.13"])
        state = layout.pop("state")
        first = old_checkpoint(tmp_path / "first", state, **layout)
        second = old_checkpoint(tmp_path / "second", state, **layout)
        (second / "code" / "settings_of_model_def.py").write_text("SCALE = 4\n")
        assert (load(first).scale, load(second).scale, load(first).scale) == (3, 4, 3)

    def test_a_checkpoint_that_does_not_say_its_class(self, tmp_path: Path) -> None:
        path = old_checkpoint(tmp_path / "old", lists())
        with pytest.raises((AssertionError, ValueError), match=r"trial_class"):
            load(path)
        assert load(path, LineTrial).model.weight.item() == WEIGHT

    @pytest.mark.parametrize("spec", ["model_def:LineTrial.Nested", "model_def:torch"])
    def test_a_class_that_is_no_trial(self, spec: str, tmp_path: Path) -> None:
        about = {**LAYOUTS["0.21.0"]["load_data"], "trial_cls_spec": spec}
        path = old_checkpoint(tmp_path / "old", lists(), load_data=about)
        with pytest.raises(AssertionError, match=spec):
            load(path)

    def test_code_that_ends_the_program(self, tmp_path: Path) -> None:
        layout = dict(LAYOUTS["0.13.13"])
        path = old_checkpoint(tmp_path / "old", layout.pop("state"), **layout)
        (path / "code" / "model_def.py").write_text("raise SystemExit(3)")
        with pytest.raises(Exception, match="trial_class"):
            load(path)


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


class TestHostileFiles:
    @pytest.mark.parametrize(
        "file",
        ["state_dict.pth", "determined/state_dict.pth", "pedl/state_dict.pth", "data/state_dict.pth", "checkpoint.pt"],
    )
    @pytest.mark.parametrize("zip_file", [True, False])
    @pytest.mark.parametrize("through", ["fit", "load"])
    def test_state_files(self, file: str, zip_file: bool, through: str, tmp_path: Path) -> None:
        marker = tmp_path / "executed"
        directory = tmp_path / "checkpoint"
        (directory / file).parent.mkdir(parents=True)
        torch.save(
            {**lists(), "rng_state": None, "evil": Hostile(marker)},
            directory / file,
            _use_new_zipfile_serialization=zip_file,
        )

        def read() -> None:
            if through == "fit":
                fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint=directory)
            else:
                load(directory, LineTrial)

        with pytest.raises(InvalidCheckpointException, match=r"checkpoint .*could run code") as raised:
            read()
        assert not marker.exists()
        assert str(directory) in str(raised.value)

    @pytest.mark.parametrize("file", ["trial_state.pkl", "workload_sequencer.pkl"])
    def test_pickled_counters(self, file: str, tmp_path: Path) -> None:
        marker = tmp_path / "executed"
        path = old_checkpoint(tmp_path / "old", lists(), metadata=metadata())
        (path / file).write_bytes(pickle.dumps({"trial_id": 0, "evil": Hostile(marker)}))
        with pytest.raises(InvalidCheckpointException, match=file):
            fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint=path)
        assert not marker.exists()

    def test_a_completely_pickled_model_is_not_read(self, tmp_path: Path) -> None:
        marker = tmp_path / "executed"
        layout = {key: value for key, value in LAYOUTS["0.12.0"].items() if key != "first_generation"}
        path = old_checkpoint(tmp_path / "old", layout.pop("state"), **layout)
        (path / "model.pth").write_bytes(pickle.dumps(Hostile(marker)))
        load(path)
        assert not marker.exists()

    def test_the_explicit_switch(self, tmp_path: Path) -> None:
        marker = tmp_path / "executed"
        directory = tmp_path / "checkpoint"
        directory.mkdir()
        torch.save({**lists(), "evil": Hostile(marker)}, directory / "state_dict.pth")
        load(directory, LineTrial, torch_load_kwargs={"weights_only": False})
        assert marker.exists()

    def test_damaged_old_files_are_clear_errors(self, tmp_path: Path) -> None:
        """Every cut and many changed bytes of each pickled file: the file is named, or loads; never another error."""
        generator = random.Random(0)
        layout = {key: value for key, value in LAYOUTS["0.21.0"].items() if key != "batches"}
        path = old_checkpoint(tmp_path / "old", layout.pop("state"), **layout)
        from determined.pytorch.checkpoint import format as checkpoint_format
        from determined.pytorch.checkpoint.directory import read_state

        logging.disable(logging.CRITICAL)
        try:
            readers: dict[str, Callable[[], object]] = {
                "trial_state.pkl": lambda: read_state(path, "the one"),
                "state_dict.pth": lambda: checkpoint_format.read(path, "the one"),
            }
            for file, read in readers.items():
                whole = (path / file).read_bytes()
                for number in range(300):
                    damaged = bytearray(whole)
                    if number % 3 == 0:
                        damaged = damaged[: generator.randrange(len(whole))]
                    else:
                        for _ in range(generator.randrange(1, 4)):
                            damaged[generator.randrange(len(whole))] = generator.randrange(256)
                    (path / file).write_bytes(damaged)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            read()
                        except InvalidCheckpointException as error:
                            assert "checkpoint the one" in str(error)  # noqa: PT017
                (path / file).write_bytes(whole)
        finally:
            logging.disable(logging.NOTSET)

    @pytest.mark.parametrize("value", ["3", -1, 1.5, None, True])
    def test_counters_that_are_none(self, value: Any, tmp_path: Path) -> None:
        stored = {"trial_id": 0, "last_ckpt": 3, "batches_trained": value}
        path = old_checkpoint(tmp_path / "old", lists(), metadata=metadata(), pickles={"trial_state.pkl": stored})
        with pytest.raises(InvalidCheckpointException, match=r"checkpoint .*trial_state.pkl.*batches_trained"):
            fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint=path)

    @pytest.mark.parametrize(
        "state",
        [
            {"rng_state": {**rng_state(), "np_rng_state": 3}},
            {"rng_state": {}},
            {"rng_state": {**rng_state(), "cpu_rng_state": torch.ones(3)}},
            {"models_state_dict": 7},
            {"optimizers_state_dict": {"0": sgd_state()}},
        ],
    )
    def test_parts_of_the_wrong_kind(self, state: dict[str, Any], tmp_path: Path) -> None:
        path = old_checkpoint(tmp_path / "old", {**lists(), **state}, metadata=metadata())
        with pytest.raises((InvalidCheckpointException, RuntimeError), match=f"checkpoint {path}"):
            fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint=path)
