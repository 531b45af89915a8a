"""Every example trains as its README describes, in separate processes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., Any]


def test_mnist_prints_a_summary_and_resumes(run: Run) -> None:
    first = run("mnist_pytorch", "--epochs", "2")
    told = dict(re.findall(r"^(Validation accuracy|Checkpoint|Metrics|TensorBoard files): +(.+)$", first.output, re.M))
    assert float(told["Validation accuracy"].rstrip("%")) > 80
    assert (Path(told["Checkpoint"]) / "state_dict.pth").is_file()
    assert Path(told["Metrics"]).is_file()
    assert list(Path(told["TensorBoard files"]).glob("*tfevents*"))
    assert "tensorboard.main --logdir" in first.output
    assert len(first.checkpoints) == 2

    uuid = Path(told["Checkpoint"]).name
    assert f"--resume {uuid}" in first.output
    second = run("mnist_pytorch", "--epochs", "3", "--resume", uuid)
    assert second.values("validation", "epochs") == [1, 2, 3]  # one record of one trial
    assert second.values("validation", "accuracy")[-1] > 0.85


@pytest.mark.thorough  # the launcher and training on two ranks have tests of their own
def test_mnist_on_two_processes(run: Run) -> None:
    done = run("mnist_pytorch", "--max-batches", "23", processes=2)
    assert done.values("validation", "accuracy")[-1] > 0.5
    assert done.output.count("Validation accuracy:") == 1


@pytest.mark.parametrize("module", ["model_def", "model_def_g1"])
def test_mnist_as_a_class_with_its_configuration(run: Run, tmp_path: Path, module: str) -> None:
    config = (EXAMPLES / "mnist_pytorch" / "const.yaml").read_text().replace("batches: 937", "batches: 23")
    (tmp_path / "short.yaml").write_text(config)
    harness = [sys.executable, "-m", "determined.exec.harness", "--config", str(tmp_path / "short.yaml")]
    done = run("mnist_pytorch", command=[*harness, f"{module}:MNistTrial"])
    assert done.values("validation", "batches") == [23]
    assert done.values("validation", "accuracy")[0] > 0.4
    assert len(done.checkpoints) == 1


def test_multi_output(run: Run) -> None:
    done = run("mnist_multi_output_pytorch", "--batches", "120")
    assert len(done.checkpoints) == 1
    losses = done.values("training", "loss")
    assert losses[-1] < losses[0]
    assert done.values("validation", "validation_error")[-1] < 0.5
    assert done.values("training", "classification_error")[-1] < 0.8


@pytest.mark.thorough
def test_cifar10(run: Run) -> None:
    done = run("cifar10_pytorch", "--batches", "126")
    assert len(done.checkpoints) == 1
    losses = done.values("training", "loss")
    assert losses[-1] < losses[0]
    assert done.values("validation", "validation_accuracy")[-1] > 0.2
    assert done.values("validation", "validation_error")[-1] == pytest.approx(
        1 - done.values("validation", "validation_accuracy")[-1], abs=1e-6
    )


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_detector(run: Run, processes: int) -> None:
    done = run("fasterrcnn_coco_pytorch", "--batches", "60", processes=processes)
    assert len(done.checkpoints) == 1
    losses = done.values("training", "loss")
    assert losses[-1] < 0.7 * losses[0]
    assert done.values("validation", "val_avg_iou")[-1] > 0.5  # 0.34 before training


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_gan(run: Run, processes: int) -> None:
    done = run("gan_mnist_pytorch", "--batches", "60", processes=processes)
    assert len(done.checkpoints) == 1
    # The losses of two opponents need not decrease; the judge has to do better than guessing.
    assert done.values("training", "d_loss")[-1] < 0.9 * math.log(2)
    assert all(math.isfinite(loss) for loss in done.values("training", "g_loss"))
    assert done.values("validation", "loss")[-1] > 0
    events = list(done.data_dir.glob("runs/*/**/*tfevents*"))
    assert any(b"generated" in path.read_bytes() for path in events)
