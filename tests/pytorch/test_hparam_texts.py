"""Hyperparameters that JSON cannot hold: used as they are, stored as text."""

from __future__ import annotations

import functools
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from determined import pytorch
from determined.core.jsonable import as_text
from tests.helpers.trials import LineTrial, checkpoints, fit


class Thing:
    """Its repr contains an address."""


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError


def activation(x: Any) -> Any:
    return x


HPARAMS = {
    "activation": torch.nn.ReLU,
    "nested": {"function": activation, "list": [np.ndarray, 1, Thing()]},
    "pattern": complex(1, 2),
    "sets": {"names": {"b", "a", "c"}},
}


class Looking(LineTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        assert context.get_hparam("activation") is HPARAMS["activation"]
        assert context.get_hparams()["nested"]["function"] is activation


def test_they_are_used_as_they_are_and_stored_as_texts(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(Looking, max_length=pytorch.Batch(1), hparams=HPARAMS)
    (record,) = [one for one in caplog.records if "hparams['activation']" in one.getMessage()]
    assert record.levelno == logging.WARNING
    (checkpoint,) = checkpoints(data_home)
    stored = json.loads((checkpoint / "load_data.json").read_text())["hparams"]
    assert stored["activation"] == "torch.nn.modules.activation.ReLU"
    assert stored["nested"]["function"] == "tests.pytorch.test_hparam_texts.activation"
    assert stored["nested"]["list"][:2] == ["numpy.ndarray", 1]
    assert stored["pattern"] == "(1+2j)"
    assert stored["sets"] == {"names": "{'a', 'b', 'c'}"}
    assert stored["lr"] == 0.1

    caplog.clear()
    fit(Looking, max_length=pytorch.Batch(2), hparams=HPARAMS, latest_checkpoint=checkpoint.name)
    assert "was saved with other hyperparameters" not in caplog.text  # Thing is another one, at another address


def test_another_class_is_another_hyperparameter(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(LineTrial, max_length=pytorch.Batch(1), hparams={"activation": torch.nn.ReLU})
    (checkpoint,) = checkpoints(data_home)
    fit(
        LineTrial,
        max_length=pytorch.Batch(2),
        hparams={"activation": torch.nn.GELU},
        latest_checkpoint=checkpoint.name,
    )
    assert 'activation: "torch.nn.modules.activation.ReLU" -> "torch.nn.modules.activation.GELU"' in caplog.text


def test_loading_gives_the_texts(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(1), hparams={"activation": torch.nn.ReLU})
    (checkpoint,) = checkpoints(data_home)
    trial: Any = pytorch.load_trial_from_checkpoint_path(checkpoint, trial_class=LineTrial)
    assert trial.context.get_hparam("activation") == "torch.nn.modules.activation.ReLU"


def test_a_repr_that_fails_is_no_failure() -> None:
    assert as_text(Silent()) == "<tests.pytorch.test_hparam_texts.Silent>"


def test_functions_written_in_c_have_names_too() -> None:
    assert as_text(np.mean) == "numpy.mean"
    assert as_text(functools.lru_cache(activation)) == "tests.pytorch.test_hparam_texts.activation"


def test_the_text_of_a_set_does_not_depend_on_the_process() -> None:
    letters = [chr(code) for code in range(ord("a"), ord("z"))]
    in_order = "{" + ", ".join(map(repr, letters)) + "}"
    assert as_text(set(letters)) == in_order
    assert as_text(frozenset(letters)) == f"frozenset({in_order})"
    assert as_text({10, 2, "x", frozenset("ba"), torch.nn.ReLU}) == (
        "{2, 10, 'x', frozenset({'a', 'b'}), torch.nn.modules.activation.ReLU}"
    )
    assert (as_text(set()), as_text(frozenset())) == ("set()", "frozenset()")
