"""Every kind of value, in every place of a state where a program can put one, survives a restart or is rejected."""

from __future__ import annotations

import collections
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from determined import pytorch
from determined.checkpoint_storage import manifest
from determined.errors import InvalidCheckpointException
from determined.experimental import Determined
from determined.pytorch.checkpoint import pickled_state
from determined.pytorch.checkpoint.state_codec.tags import KIND, tags_in
from tests.cli.det_command import det_json, det_ok
from tests.helpers import warm
from tests.helpers.ranks import run_ranks
from tests.helpers.rich_states import CLASSES, PLACES, Entry, Guarded, RichTrial
from tests.helpers.trials import HPARAMS, LineTrial, checkpoints, fit, line, with_callbacks

ROOT = Path(__file__).parents[3]


def only(data_home: Path) -> Path:
    (directory,) = checkpoints(data_home)
    return directory


def resumed(data_home: Path, places: list[str]) -> RichTrial:
    """Train three batches, and continue from there with a fresh trial."""
    fit(RichTrial, max_length=pytorch.Batch(3), hparams={"places": places})
    checkpoint = only(data_home)
    torch.load(checkpoint / "state_dict.pth", weights_only=True)
    return fit(RichTrial, max_length=pytorch.Batch(4), latest_checkpoint=checkpoint.name, hparams={"places": places})


@pytest.mark.parametrize("place", PLACES)
def test_every_kind_survives_a_restart(place: str, data_home: Path) -> None:
    registered = CLASSES if place == "hook" else []  # there, nothing in the program names these classes
    with torch.serialization.safe_globals(registered):
        trial = resumed(data_home, [place])
    expected = trial.expected(3)
    assert trial.found.keys() == expected.keys() == {place}
    assert trial.found == expected
    if place == "callback":
        owner = vars(trial.callback.owner)
        assert owner["trial"] is trial
        assert owner["model"] is trial.model
        assert owner["weight"] is trial.model.weight


def test_every_kind_survives_a_kill(data_home: Path, work_dir: Path) -> None:
    """Another process is killed after it saved, and a new one continues."""
    program = [sys.executable, "-m", "tests.helpers.rich_states"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = warm.Popen([*program, "1000000"], env=environment, stdout=subprocess.DEVNULL)
    try:
        while len(saved := visible(data_home)) < 2:  # the first of these is certainly recorded
            assert killed.poll() is None
            threading.Event().wait(0.01)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    batches = max(json.loads((directory / "metadata.json").read_text())["steps_completed"] for directory in saved)
    rest = warm.run([*program, str(batches + 9)], env=environment, capture_output=True, text=True)
    assert rest.returncode == 0, rest.stderr
    result = json.loads(rest.stdout.splitlines()[-1])
    assert result["resumed"] >= 2
    assert result["same"]


def visible(data_home: Path) -> list[Path]:
    files = (data_home / "determined" / "checkpoints").glob("*/metadata.json")
    return [file.parent for file in files if not file.parent.name.startswith(".")]


def change(checkpoint: Path, place: str, changed: dict[str, Any]) -> None:
    """Change the first tag of a class of the program in a place of a checkpoint, and update its manifest."""
    file = checkpoint / "state_dict.pth"
    state = torch.load(file, weights_only=True)
    part = {
        "callback": "callbacks",
        "scheduler": "lr_schedulers_state_dict",
        "optimizer": "optimizers_state_dict",
        "model": "models_state_dict",
        "hook": "rich",
    }[place]
    tag = next(tag for tag in tags_in(state[part]) if str(tag.get("type")).endswith("Frozen"))
    tag.update(changed)
    torch.save(state, file)
    manifest.write(checkpoint)


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(300):
        value = [value]
    return value


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "os.system": ({"type": "os.system"}, "os.system"),
    "another class": ({"type": "tests.helpers.rich_states.Slotted"}, "Slotted"),
    "missing attribute": ({"attributes": {}}, "lacks the attribute 'a'"),
    "deep": ({"attributes": {"a": 1, "b": deep()}}, "nested deeper"),
}


@pytest.mark.parametrize("place", PLACES)
def test_hostile_states_are_refused_in_every_place(place: str, data_home: Path) -> None:
    hparams = {"places": [place]}
    with torch.serialization.safe_globals(CLASSES if place == "hook" else []):
        fit(RichTrial, max_length=pytorch.Batch(1), hparams=hparams)
        checkpoint = only(data_home)
        good = (checkpoint / "state_dict.pth").read_bytes()
        for name, (changed, expected) in HOSTILE.items():
            if place == "hook" and name == "another class":
                continue  # it is registered: the program declares that it is safe
            (checkpoint / "state_dict.pth").write_bytes(good)
            change(checkpoint, place, changed)
            made = Guarded.made
            with pytorch.init(hparams={"global_batch_size": 2, **hparams}) as context:
                trial = RichTrial(context)
                built = Guarded.made
                with pytest.raises(InvalidCheckpointException) as raised:
                    pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(2), latest_checkpoint=checkpoint.name)
            assert trial.batch_indices == [], name
            assert built > made == made
            first = str(raised.value).splitlines()[0]
            assert first.startswith(f"checkpoint {checkpoint.name} "), name
            assert expected in first, name
            if place == "model":
                with pytest.raises(InvalidCheckpointException, match=str(checkpoint)):
                    pytorch.load_trial_from_checkpoint_path(checkpoint, trial_class=RichTrial)


class Holding(pytorch.PyTorchCallback):
    """A callback whose state is `held`; counts the calls of its hooks."""

    def __init__(self, held: Any = None) -> None:
        self.held = held
        self.saves = 0
        self.asked = 0

    def state_dict(self) -> dict[str, Any]:
        self.asked += 1
        return {"held": self.held}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.held = state_dict["held"]

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        self.saves += 1


class TestEarlyCheck:
    def test_a_state_that_cannot_be_saved_is_refused_before_the_first_batch(self, data_home: Path) -> None:
        callback = Holding([1, threading.Lock()])
        with pytorch.init(hparams={"global_batch_size": 2}) as context:
            trial = with_callbacks(callback)(context)
            with pytest.raises(TypeError) as raised:
                pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(1))
        assert trial.batch_indices == []
        assert (callback.asked, callback.saves) == (1, 0)
        message = str(raised.value)
        assert "checkpoint: callbacks['a']['held'][1] is a _thread.lock" in message.splitlines()[0]
        for option in ("state_dict()", "torch.serialization.add_safe_globals", "allow_pickled_state()"):
            assert option in message
        assert checkpoints(data_home) == []

    def test_extra_state_of_a_model(self) -> None:
        class Odd(torch.nn.Linear):
            def get_extra_state(self) -> Any:
                return {"lock": threading.Lock()}

        class Trial(LineTrial):
            def make_model(self) -> torch.nn.Module:
                return Odd(1, 1)

        with pytest.raises(TypeError, match=r"models_state_dict\[0\]\['_extra_state'\]\['lock'\] is a _thread.lock"):
            fit(Trial, max_length=pytorch.Batch(1))

    def test_a_state_that_does_not_exist_before_training_is_checked_later(
        self, data_home: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Late(Holding):
            def state_dict(self) -> dict[str, Any]:
                if self.held is None:
                    raise RuntimeError("nothing to tell yet")
                return super().state_dict()

            def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
                self.held = [avg_metrics["loss"]]

        fit(with_callbacks(Late()), max_length=pytorch.Batch(1))
        (record,) = [one for one in caplog.records if "nothing to tell yet" in one.getMessage()]
        assert record.levelno == logging.WARNING
        assert "callbacks['a']" in record.getMessage()
        assert only(data_home)
        again = Late()
        fit(with_callbacks(again), max_length=pytorch.Batch(2), latest_checkpoint=only(data_home).name)
        assert again.asked == 2  # once before training, once for the checkpoint

    def test_parameters_without_values_yet_are_no_problem(self, data_home: Path) -> None:
        class Lazy(LineTrial):
            def make_model(self) -> torch.nn.Module:
                return torch.nn.LazyLinear(1, bias=False)

        trial = fit(Lazy, max_length=pytorch.Batch(1))
        loaded = torch.load(only(data_home) / "state_dict.pth", weights_only=True)
        assert torch.equal(loaded["models_state_dict"][0]["weight"], trial.weight)

    def test_every_problem_is_listed(self) -> None:
        with pytest.raises(TypeError) as raised:
            fit(with_callbacks(Holding([threading.Lock()] * 2 + [object()])), max_length=pytorch.Batch(1))
        assert "['held'][0]" in str(raised.value)
        assert "['held'][2] is a builtins.object" in str(raised.value)


class Spoiling(Holding):
    """Gets a value that cannot be saved while it trains."""

    def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
        self.held = {"good": np.ones(2), "bad": threading.Lock()}


class TestLaterProblems:
    def test_the_checkpoint_is_saved_without_the_part(self, data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
        trial = fit(with_callbacks(Spoiling()), max_length=pytorch.Batch(2))
        checkpoint = only(data_home)
        (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert checkpoint.name in record.getMessage()
        assert "callbacks['a']['held']['bad'] is a _thread.lock" in record.getMessage()
        metadata = json.loads((checkpoint / "metadata.json").read_text())
        assert metadata["incomplete"] == ["callbacks['a']['held']['bad'] (_thread.lock)"]
        state = torch.load(checkpoint / "state_dict.pth", weights_only=True)
        assert KIND in state["callbacks"]["a"]["held"]["good"]
        assert "INCOMPLETE" in (shown := det_ok("checkpoint", "describe", checkpoint.name))
        assert "callbacks['a']['held']['bad'] (_thread.lock)" in shown.split("INCOMPLETE")[1]
        assert det_json("checkpoint", "describe", checkpoint.name)["incomplete"] == metadata["incomplete"]

        with pytest.raises(InvalidCheckpointException) as raised:
            fit(with_callbacks(Spoiling()), max_length=pytorch.Batch(3), latest_checkpoint=checkpoint.name)
        first = str(raised.value).splitlines()[0]
        assert f"checkpoint {checkpoint.name} is incomplete" in first
        assert "callbacks['a']['held']['bad'] is a _thread.lock" in first
        loaded = pytorch.load_trial_from_checkpoint_path(checkpoint, trial_class=LineTrial)
        assert isinstance(loaded, LineTrial)
        assert torch.equal(loaded.weight, trial.weight)

    def test_so_it_is_when_it_is_written_beside_the_training(
        self, data_home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("determined.pytorch.checkpoint.checkpointer.SMALL", 0)
        fit(with_callbacks(Spoiling()), max_length=pytorch.Batch(4), checkpoint_period=pytorch.Batch(2))
        for checkpoint in checkpoints(data_home):
            assert json.loads((checkpoint / "metadata.json").read_text())["incomplete"]
            assert torch.load(checkpoint / "state_dict.pth", weights_only=True)

    def test_what_a_hook_adds_to_the_checkpoint(self, data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
        class Adding(pytorch.PyTorchCallback):
            def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
                checkpoint["mine"] = threading.Lock()

        fit(with_callbacks(Adding()), max_length=pytorch.Batch(1))
        assert "mine is a _thread.lock" in caplog.text
        with pytest.raises(InvalidCheckpointException, match=r"mine is a _thread\.lock"):
            fit(LineTrial, max_length=pytorch.Batch(2), latest_checkpoint=only(data_home).name)

    def test_a_class_that_comes_up_later_is_needed_for_resuming(
        self, data_home: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Best(Holding):
            def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
                self.held = Entry(7, "best")

        fit(with_callbacks(Best()), max_length=pytorch.Batch(1))
        (record,) = [one for one in caplog.records if "add_safe_globals" in one.getMessage()]
        assert record.levelno == logging.WARNING
        assert "tests.helpers.rich_states.Entry (callbacks['a']['held'])" in record.getMessage()
        name = only(data_home).name
        with pytest.raises(InvalidCheckpointException, match=r"callbacks\['a'\]\['held'\].*Entry.*add_safe_globals"):
            fit(with_callbacks(Best()), max_length=pytorch.Batch(2), latest_checkpoint=name)

        class Started(Best):
            def on_training_start(self) -> None:
                assert self.held == Entry(7, "best")
                self.held = "seen"

        with torch.serialization.safe_globals([Entry]):
            fit(with_callbacks(Started()), max_length=pytorch.Batch(2), latest_checkpoint=name)


class Odd:
    """Defines its own pickling, and cannot be encoded."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Odd, (self.value,)


class Pickling(LineTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        context.experimental.allow_pickled_state()


class TestPickledState:
    def saved(self, data_home: Path) -> Path:
        fit(with_callbacks(Holding([Odd(3)]), base=Pickling), max_length=pytorch.Batch(1))
        return only(data_home)

    def test_it_is_stored_in_a_separate_file(self, data_home: Path) -> None:
        checkpoint = self.saved(data_home)
        assert (checkpoint / pickled_state.FILE).is_file()
        metadata = json.loads((checkpoint / "metadata.json").read_text())
        assert metadata["pickled_state"] == [
            "callbacks['a']['held'][0] (tests.pytorch.checkpoint.test_saved_states.Odd)"
        ]
        assert "incomplete" not in metadata
        torch.load(checkpoint / "state_dict.pth", weights_only=True)
        manifest.verify(checkpoint, "mine")
        assert "PICKLED STATE" in det_ok("checkpoint", "describe", checkpoint.name)
        assert det_json("checkpoint", "describe", checkpoint.name)["pickled_state"] == metadata["pickled_state"]

        class Looking(Holding):
            def on_training_start(self) -> None:
                assert self.held[0].value == 3

        fit(with_callbacks(Looking([]), base=Pickling), max_length=pytorch.Batch(2), latest_checkpoint=checkpoint.name)

    def test_only_a_trial_that_makes_the_same_call_reads_it(self, data_home: Path, tmp_path: Path) -> None:
        checkpoint = self.saved(data_home)
        canary = tmp_path / "canary"

        class Call:
            def __reduce__(self) -> Any:
                return os.system, (f"touch {canary}",)

        pickled_state.write([pickle.dumps(Call())], checkpoint)
        manifest.write(checkpoint)
        manifest.verify(checkpoint, "mine")
        pytorch.load_trial_from_checkpoint_path(checkpoint, trial_class=Pickling)
        with pytest.raises(InvalidCheckpointException, match=r"callbacks\['a'\]\['held'\]\[0\].*allow_pickled_state"):
            fit(with_callbacks(Holding()), max_length=pytorch.Batch(2), latest_checkpoint=checkpoint.name)
        assert not canary.exists()
        self.read_by_everything_else(checkpoint, tmp_path)
        assert not canary.exists()
        fit(with_callbacks(Holding([]), base=Pickling), max_length=pytorch.Batch(2), latest_checkpoint=checkpoint.name)
        assert canary.exists()  # the call declares that checkpoints are trusted

    def read_by_everything_else(self, checkpoint: Path, tmp_path: Path) -> None:
        """Read the checkpoint with the commands and the SDK, none of which may unpickle anything."""
        name = checkpoint.name
        assert "PICKLED STATE" in det_ok("checkpoint", "describe", name)
        det_ok("checkpoint", "download", name, "-o", str(tmp_path / "downloaded"))
        det_ok("checkpoint", "export", name, "-o", str(tmp_path / "weights.pt"))
        det_ok("store", "check")
        found = Determined().get_checkpoint(name)
        copy = found.download(str(tmp_path / "by the SDK"))
        assert (Path(copy) / pickled_state.FILE).read_bytes() == (checkpoint / pickled_state.FILE).read_bytes()

    def test_what_cannot_be_pickled_either_is_refused_early(self) -> None:
        with pytest.raises(TypeError, match=r"callbacks\['a'\]\['held'\].*cannot be pickled either"):
            fit(with_callbacks(Holding(threading.Lock()), base=Pickling), max_length=pytorch.Batch(1))

    def test_without_need_there_is_no_such_file(self, data_home: Path) -> None:
        fit(with_callbacks(Holding([Entry(1, np.ones(2))]), base=Pickling), max_length=pytorch.Batch(1))
        assert not (only(data_home) / pickled_state.FILE).exists()
        shown = det_ok("checkpoint", "describe", only(data_home).name)
        assert "PICKLED" not in shown
        assert "INCOMPLETE" not in shown

    def test_models_are_referred_to_in_pickles(self, data_home: Path) -> None:
        class Owning(Pickling):
            def build_callbacks(self) -> dict[str, Any]:
                odd = Odd(1)
                odd.__class__ = Linked
                odd.model = self.model  # type: ignore[attr-defined]
                self.holding = Holding(odd)
                return {"a": self.holding}

        fit(Owning, max_length=pytorch.Batch(1))
        trial = fit(Owning, max_length=pytorch.Batch(2), latest_checkpoint=only(data_home).name)
        assert trial.holding.held.model is trial.model


class Linked(Odd):
    def __reduce__(self) -> Any:
        return _linked, (self.value, self.model)  # type: ignore[attr-defined]


def _linked(value: int, model: Any) -> Any:
    linked = Odd(value)
    linked.__class__ = Linked
    linked.model = model  # type: ignore[attr-defined]
    return linked


def test_the_state_of_a_loader_may_hold_arrays(data_home: Path) -> None:
    class Loader:
        def __init__(self) -> None:
            self.position = np.array([0])
            self.seen: collections.deque[int] = collections.deque(maxlen=2)

        def __iter__(self) -> Any:
            while True:
                number = int(self.position[0]) % 6
                self.position = self.position + 1
                self.seen.append(number)
                x, y = line()[number]
                yield x.unsqueeze(0), y.unsqueeze(0)

        def state_dict(self) -> dict[str, Any]:
            return {"position": self.position, "seen": self.seen}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            assert state["seen"].maxlen == 2
            self.position, self.seen = state["position"], state["seen"]

    class Foreign(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.experimental.disable_dataset_reproducibility_checks()

        def build_training_data_loader(self) -> Any:
            return Loader()

    whole = fit(Foreign, max_length=pytorch.Batch(7), checkpoint_period=pytorch.Batch(4))
    rest = fit(Foreign, max_length=pytorch.Batch(7), latest_checkpoint=checkpoints(data_home)[0].name)
    assert rest.records == whole.records[4:]


def test_numpy_scalars_in_batch_metrics_stay_scalars(data_home: Path) -> None:
    class Numbers(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            loss = super().train_batch(batch, epoch_idx, batch_idx)["loss"]
            return {"loss": loss, "single": np.float32(batch_idx), "whole": np.int64(batch_idx), "flag": np.True_}

    class Looking(pytorch.PyTorchCallback):
        rows: list[dict[str, Any]] = []

        def on_training_workload_end(self, avg_metrics: Any, batch_metrics: list[dict[str, Any]]) -> None:
            Looking.rows = batch_metrics

    fit(with_callbacks(Looking(), base=Numbers), max_length=pytorch.Batch(3))
    assert [type(row["single"]) for row in Looking.rows] == [np.float32] * 3
    assert [type(row["whole"]) for row in Looking.rows] == [np.int64] * 3
    assert [type(row["flag"]) for row in Looking.rows] == [np.bool_] * 3
    assert [row["whole"] for row in Looking.rows] == [0, 1, 2]
    assert all(isinstance(row["loss"], np.ndarray) for row in Looking.rows)  # tensors become arrays, as ever


class Phase:
    def __init__(self) -> None:
        self.batches = 0


class Phased(Holding):
    """Its state changes its class and gains attributes while it trains."""

    def __init__(self) -> None:
        super().__init__(Phase())
        self.seen: list[str] = []

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.seen.append(f"{type(self.held).__name__} {sorted(vars(self.held))}")

    def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
        if len(self.seen) == 0:
            self.held.more = 1
        if any(not np.isfinite(row["loss"]) for row in batch_metrics):
            self.held = Guarded(x=1)


@pytest.mark.parametrize("key", ["models_state_dict", "optimizers_state_dict", "callbacks", "rank_rng_states"])
def test_another_object_in_the_place_of_a_state_is_refused(key: str, data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(1))
    checkpoint = only(data_home)
    state = torch.load(checkpoint / "state_dict.pth", weights_only=True)
    trial = {KIND: "reference", "to": "trial"}
    state[key] = trial if key == "rank_rng_states" else [trial]
    torch.save(state, checkpoint / "state_dict.pth")
    manifest.write(checkpoint)
    with pytest.raises(InvalidCheckpointException, match=f"checkpoint {checkpoint.name} holds a"):
        fit(LineTrial, max_length=pytorch.Batch(2), latest_checkpoint=checkpoint.name)


def test_a_rollback_finds_the_classes_that_were_there_at_first(data_home: Path) -> None:
    class Bad(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            loss = super().train_batch(batch, epoch_idx, batch_idx)["loss"]
            return {"loss": loss * float("nan") if batch_idx == 3 else loss}

    phased = Phased()
    fit(
        with_callbacks(phased, base=Bad),
        max_length=pytorch.Batch(5),
        checkpoint_period=pytorch.Batch(2),
        reporting_period=pytorch.Batch(1),
        on_nan="rollback",
    )
    assert phased.seen == ["Phase ['batches', 'more']"]


def test_fit_may_go_back_in_the_same_process(data_home: Path) -> None:
    phased = Phased()
    with pytorch.init(hparams={"global_batch_size": 2}) as context:
        trial = with_callbacks(phased)(context)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Batch(1), checkpoint_policy="none")
        phased.held.later = 2
        trainer.fit(max_length=pytorch.Batch(2), latest_checkpoint=only(data_home).name, checkpoint_policy="none")
    assert phased.seen == ["Phase ['batches', 'more']"]


def on_ranks() -> list[Any]:
    """Rejected on all ranks, saved by the chief, restored on all."""
    said: list[Any] = []
    with pytorch.init(hparams=HPARAMS) as context:
        trial = with_callbacks(Holding(threading.Lock()))(context)
        try:
            pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(1))
        except Exception as error:  # noqa: BLE001  (which one it is depends on the rank)
            said.append(str(error).splitlines()[0])
    callback = Holding(Entry(0, None))
    with pytorch.init(hparams=HPARAMS) as context:
        trial = with_callbacks(callback)(context)
        callback.held = Entry(0, trial.model)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Batch(1), checkpoint_policy="none")
        (saved,) = checkpoints(Path(os.environ["XDG_DATA_HOME"]))
        callback.held = Entry(5, trial.model)
        trainer.fit(max_length=pytorch.Batch(2), latest_checkpoint=saved.name, checkpoint_policy="none")
        said.append([callback.held.score, callback.held.note is trial.model])
    return said


def test_several_ranks(data_home: Path) -> None:
    first, second = (rank.value for rank in run_ranks(on_ranks, n=2, timeout=120))
    assert "callbacks['a']['held'] is a _thread.lock" in first[0]
    assert "rank 0 failed checking" in second[0]
    assert "callbacks['a']['held'] is a _thread.lock" in second[0]
    assert first[1] == second[1] == [0, True]
