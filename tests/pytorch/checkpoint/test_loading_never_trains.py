"""Loading a checkpoint imports its code, and never starts a run with it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from determined import core, pytorch
from determined.checkpoint_storage import manifest
from determined.errors import TrainingOnImportError
from determined.experimental import Determined, core_v2
from determined.user_code import imports
from tests.helpers import warm
from tests.helpers.records import runs
from tests.helpers.trials import LineTrial, checkpoints, fit

load = pytorch.load_trial_from_checkpoint_path

TRIAL = """
import torch
from torch.utils.data import TensorDataset
from determined import core, pytorch
from determined.experimental import core_v2

class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(1, 1, bias=False))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), 0.1))

    def build_training_data_loader(self):
        return pytorch.DataLoader(TensorDataset(torch.ones(4, 1)), batch_size=2)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch[0]).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": self.model(batch[0]).mean()}
"""

TRAINING = """
with pytorch.init() as context:
    trial = Trial(context)
    pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(2), checkpoint_policy="none")
"""


def trained(work_dir: Path, data_home: Path, source: str, *words: str) -> Path:
    """Return the checkpoint of a script, started as a program."""
    (work_dir / "train_of_test.py").write_text(source)
    run = subprocess.run if "-c" in words else warm.run
    run([sys.executable, *(words or ["train_of_test.py"])], check=True, cwd=work_dir, timeout=60)
    (checkpoint,) = checkpoints(data_home)
    return checkpoint


def rewritten(checkpoint: Path, source: str, **about: str | None) -> Path:
    """Return the same checkpoint with another script."""
    (checkpoint / "code").mkdir(exist_ok=True)
    (checkpoint / "code" / "train_of_test.py").unlink(missing_ok=True)
    (checkpoint / "code" / "train_of_test.py").write_text(source)
    described = json.loads((checkpoint / "load_data.json").read_text())
    (checkpoint / "load_data.json").write_text(json.dumps({**described, **about}))
    manifest.write(checkpoint)
    return checkpoint


MAIN = {"trial_cls_spec": "__main__:Trial", "main_script": "train_of_test.py"}


@pytest.fixture
def checkpoint(data_home: Path) -> Path:
    """Return a checkpoint of a trial like that of the scripts; without code."""
    fit(LineTrial, max_length=pytorch.Batch(1))
    (directory,) = checkpoints(data_home)
    return directory


def test_a_script_without_the_guard_is_refused_with_both_solutions(data_home: Path, work_dir: Path) -> None:
    checkpoint = trained(work_dir, data_home, TRIAL + TRAINING)
    count = len(runs(data_home))
    for attempt in (lambda: load(checkpoint), lambda: Determined().get_checkpoint(checkpoint.name).load()):
        with pytest.raises(TrainingOnImportError) as raised:
            attempt()
        message = str(raised.value)
        assert message.startswith("the code of checkpoint ")
        for part in (checkpoint.name, "pytorch.init()", "trial_class=", 'if __name__ == "__main__":'):
            assert part in message
    assert len(runs(data_home)) == count
    assert len(checkpoints(data_home)) == 1
    assert type(load(checkpoint, trial_class=LineTrial)) is LineTrial


def test_a_script_with_the_guard_loads(data_home: Path, work_dir: Path) -> None:
    guarded = 'if __name__ == "__main__":\n' + "\n".join(f"    {line}" for line in TRAINING.splitlines())
    checkpoint = trained(work_dir, data_home, TRIAL + guarded)
    assert type(load(checkpoint)).__name__ == "Trial"
    assert len(runs(data_home)) == 1


def test_a_script_with_a_dot_in_its_name_loads(checkpoint: Path) -> None:
    rewritten(checkpoint, "", **MAIN | {"main_script": "train.v2.py"})
    (checkpoint / "code" / "train.v2.py").write_text("import train_of_test\n" + TRIAL)
    manifest.write(checkpoint)
    assert type(load(checkpoint)).__name__ == "Trial"
    assert not {"train_v2", "train_of_test"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("pytorch.init().__enter__()", "pytorch.init()"),
        ("core.init()", "core.init()"),
        ("core_v2.init()", "core_v2.init()"),
        ("core_v2.init_context()", "core_v2.init_context()"),
        ("pytorch.Trainer.fit(None)", "Trainer.fit()"),
    ],
)
def test_each_call_that_starts_a_run(checkpoint: Path, line: str, call: str, data_home: Path) -> None:
    count = len(runs(data_home))
    with pytest.raises(TrainingOnImportError, match="calls " + call.replace("(", r"\(").replace(")", r"\)")):
        load(rewritten(checkpoint, f"{TRIAL}\n{line}\n", **MAIN))
    assert len(runs(data_home)) == count


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            "import argparse; p = argparse.ArgumentParser(); p.add_argument('data'); p.parse_args(['--x'])",
            "ends the pr",
        ),
        ("open('/no/such/data')", "FileNotFoundError: .*No such file"),
        ("raise ValueError('of its own')", "ValueError: of its own"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_other_errors_while_importing_come_with_the_same_advice(checkpoint: Path, lines: str, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"checkpoint .*{reason}.*trial_class=MyTrial.*__main__"):
        load(rewritten(checkpoint, f"{TRIAL}\n{lines}\n", **MAIN))


def test_a_script_that_catches_the_refusal_loads_without_training(checkpoint: Path, data_home: Path) -> None:
    tolerant = "try:\n    core.init()\nexcept Exception:\n    pass\n"
    count = len(runs(data_home))
    assert type(load(rewritten(checkpoint, TRIAL + tolerant, **MAIN))).__name__ == "Trial"
    assert len(runs(data_home)) == count


def test_another_thread_may_train_meanwhile(checkpoint: Path) -> None:
    """The import is only refused in its own thread, and until it has ended."""
    importing, trained_meanwhile = threading.Event(), threading.Event()
    results: list[object] = []

    def train() -> None:
        importing.wait(30)
        try:
            with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
                context.train.report_training_metrics(1, {"x": 1})
            results.append("trained")
        except BaseException as error:  # noqa: BLE001  (compared below)
            results.append(error)
        trained_meanwhile.set()

    thread = threading.Thread(target=train)
    thread.start()
    imports.import_hook_of_test = (importing, trained_meanwhile)  # type: ignore[attr-defined]
    try:
        waiting = (
            "from determined.user_code import imports\n"
            "importing, trained = imports.import_hook_of_test\n"
            "importing.set()\nassert trained.wait(30)\n"
        )
        load(rewritten(checkpoint, TRIAL + waiting, **MAIN))
    finally:
        importing.set()
        thread.join()
        del imports.import_hook_of_test  # type: ignore[attr-defined]
    assert results == ["trained"]
    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL):
        pass
    core_v2.init()
    core_v2.close()


@pytest.mark.parametrize("script", [None, "notebook.ipynb", "gone.py", "../outside.py", "/etc/passwd", "a\0b"])
def test_a_class_of_a_notebook_is_refused_and_nothing_is_executed(
    checkpoint: Path, script: str | None, tmp_path: Path
) -> None:
    """No file is run because it happens to contain the same text."""
    (checkpoint / "code" / "notebook.ipynb").write_text("class Trial(")
    (checkpoint.parent / "outside.py").write_text("class Trial: pass")
    decoy = f"open({str(tmp_path / 'executed')!r}, 'w')\nclass Trial: pass\n"
    rewritten(checkpoint, decoy, **{**MAIN, "main_script": script})
    with pytest.raises(ValueError, match=r"'Trial' of checkpoint .* was defined in a notebook.*trial_class=MyTrial"):
        load(checkpoint)
    assert not (tmp_path / "executed").exists()
    assert type(load(checkpoint, trial_class=LineTrial)) is LineTrial


def test_code_typed_in_trains_and_is_refused_when_it_is_loaded(data_home: Path, work_dir: Path) -> None:
    (work_dir / "decoy.py").write_text("class Trial: pass\nopen('executed', 'w')\n")
    checkpoint = trained(work_dir, data_home, "", "-c", TRIAL + TRAINING)
    assert [*(checkpoint / "code").iterdir()] == []
    with pytest.raises(ValueError, match="interactive session"):
        load(checkpoint)
    assert not (work_dir / "executed").exists()


def test_a_module_with_relative_imports_loads(data_home: Path, work_dir: Path) -> None:
    (work_dir / "pkg_of_test").mkdir()
    (work_dir / "pkg_of_test" / "__init__.py").touch()
    (work_dir / "pkg_of_test" / "model.py").write_text(TRIAL)
    guarded = 'if __name__ == "__main__":\n' + "\n".join(f"    {line}" for line in TRAINING.splitlines())
    (work_dir / "pkg_of_test" / "train.py").write_text(
        "from determined import pytorch\nfrom .model import Trial as Base\nclass Trial(Base):\n    pass\n" + guarded
    )
    checkpoint = trained(work_dir, data_home, "", "-m", "pkg_of_test.train")
    loaded = load(checkpoint)
    assert (type(loaded).__module__, type(loaded).__name__) == ("pkg_of_test.train", "Trial")


def test_a_project_whose_modules_are_found_by_a_variable_loads(
    data_home: Path, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work_dir / "pyproject.toml").touch()
    for name in ("src", "scripts"):
        (work_dir / name).mkdir()
    (work_dir / "src" / "model_of_test.py").write_text(TRIAL)
    training = "from determined import pytorch\nfrom model_of_test import Trial\n" + TRAINING
    (work_dir / "scripts" / "start_of_test.py").write_text(training)
    monkeypatch.setenv("PYTHONPATH", str(work_dir / "src"))
    checkpoint = trained(work_dir, data_home, "", "scripts/start_of_test.py")
    assert json.loads((checkpoint / "load_data.json").read_text())["import_paths"] == ["scripts", "src"]
    assert type(load(checkpoint)).__module__ == "model_of_test"  # although the script has no guard: it is not imported
