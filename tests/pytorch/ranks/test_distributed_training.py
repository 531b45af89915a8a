"""Training on two real ranks; each start checks several things, because starting takes most of the time."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from determined import core, pytorch
from determined.errors import InvalidExperimentException
from tests.helpers import warm
from tests.helpers.ranks import REPOSITORY, run_ranks
from tests.helpers.trials import EPOCH_LENGTH, LineTrial, Recorder, checkpoints, fit, line, metrics, with_callbacks

TWO = {"global_batch_size": 4}


def small_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


class Small(LineTrial):
    """Counts how often gradients are exchanged."""

    shuffle = False

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        torch.manual_seed(context.distributed.rank)  # ranks start differently, and wrap_model makes them equal
        super().__init__(context)
        self.at_start = [parameter.tolist() for parameter in self.model.parameters()]
        self.exchanges: list[int] = []
        if context.distributed.size > 1:
            cast(DistributedDataParallel, self.model).register_comm_hook(None, self.exchange)

    def make_model(self) -> torch.nn.Module:
        return small_model()

    def exchange(self, state, bucket):  # type: ignore[no-untyped-def]  # torch compares annotations with its own types
        self.exchanges.append(self.context.current_train_batch())
        work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    def build_training_data_loader(self) -> pytorch.DataLoader:
        size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(line(), batch_size=size, shuffle=self.shuffle)


def weights(model: torch.nn.Module) -> list[Any]:
    return [parameter.tolist() for parameter in model.parameters()]


def train_small() -> Any:
    result: dict[str, Any] = {}
    for aggregation in (1, 2):
        trial = fit(
            Small, hparams=TWO, max_length=pytorch.Batch(6), options={"aggregation_frequency": aggregation}, seed=0
        )
        result[f"weights {aggregation}"] = weights(trial.model)
        result[f"exchanges {aggregation}"] = trial.exchanges
        result["start"] = trial.at_start
    model: Any = trial.model
    result["kind"] = type(model).__name__
    model.module.note = "inner"
    result["attributes"] = [model.note, list(getattr(model, "0").weight.shape)]
    try:
        model.no_such_attribute  # noqa: B018
    except AttributeError as error:
        result["missing"] = "no_such_attribute" in str(error)
    result["records"] = trial.records
    result["sizes"] = [trial.context.get_per_slot_batch_size(), trial.context.get_global_batch_size()]
    return result


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    directory = tmp_path_factory.mktemp("small")
    environment = {"XDG_DATA_HOME": str(directory / "data"), "DET_PROGRESS": "0"}
    return [rank.value for rank in run_ranks(train_small, n=2, env=environment, cwd=directory, timeout=120)]


class TestDataParallel:
    def test_all_ranks_hold_the_weights_of_rank_0_at_once(self, small: list[Any]) -> None:
        torch.manual_seed(0)
        assert small[0]["start"] == small[1]["start"] == weights(small_model())

    def test_two_ranks_are_one_with_a_larger_batch(self, small: list[Any]) -> None:
        assert small[0]["weights 1"] == small[1]["weights 1"]
        single = fit(Small, hparams=TWO, max_length=pytorch.Batch(6))
        for value, expected in zip(small[0]["weights 1"], single.model.parameters(), strict=True):
            torch.testing.assert_close(torch.tensor(value), expected)
        assert small[0]["weights 1"] != small[0]["start"]

    def test_and_so_with_aggregation(self, small: list[Any]) -> None:
        single = fit(Small, hparams=TWO, max_length=pytorch.Batch(6), options={"aggregation_frequency": 2})
        assert small[0]["weights 2"] == small[1]["weights 2"]
        for value, expected in zip(small[0]["weights 2"], single.model.parameters(), strict=True):
            torch.testing.assert_close(torch.tensor(value), expected)

    def test_gradients_are_exchanged_only_where_optimizers_step(self, small: list[Any]) -> None:
        for rank in small:
            assert rank["exchanges 1"] == [0, 1, 2, 3, 4, 5]
            assert rank["exchanges 2"] == [1, 3, 5]

    def test_attributes_of_the_inner_model(self, small: list[Any]) -> None:
        assert small[0]["kind"] == "DistributedModel"
        assert small[0]["attributes"] == ["inner", [4, 1]]
        assert small[0]["missing"] is True

    def test_data_are_shared_out(self, small: list[Any]) -> None:
        assert small[0]["sizes"] == [2, 4]
        assert small[0]["records"][:3] == [[1, 2], [5, 6], [9, 10]]
        assert small[1]["records"][:3] == [[3, 4], [7, 8], [11, 12]]


class Adversarial(LineTrial):
    """A generator, a discriminator that is frozen while the generator learns, and a model that never learns."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        torch.manual_seed(context.distributed.rank)
        frozen = torch.nn.Linear(1, 1)
        frozen.requires_grad_(False)
        self.frozen = context.wrap_model(frozen)
        self.generator = context.wrap_model(torch.nn.Linear(1, 1))
        self.discriminator = context.wrap_model(small_model())
        self.one = context.wrap_optimizer(torch.optim.SGD(self.generator.parameters(), lr=0.1))
        self.two = context.wrap_optimizer(torch.optim.SGD(self.discriminator.parameters(), lr=0.1))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        self.discriminator.requires_grad_(False)
        fooled = self.discriminator(self.generator(self.frozen(x)))
        self.context.backward(mse_loss(fooled, torch.ones_like(fooled)))
        self.context.step_optimizer(self.one)

        self.discriminator.requires_grad_(True)
        real = self.discriminator(y)
        self.context.backward(mse_loss(real, torch.ones_like(real)))
        false = self.discriminator(self.generator(self.frozen(x)).detach())
        self.context.backward(mse_loss(false, torch.zeros_like(false)))
        self.context.step_optimizer(self.two)
        return {"loss": real.mean()}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"x": 0.0}


def train_adversarial(aggregation: int) -> list[Any]:
    trial = fit(
        Adversarial, hparams=TWO, max_length=pytorch.Batch(4), options={"aggregation_frequency": aggregation}, seed=0
    )
    return [weights(model) for model in (trial.frozen, trial.generator, trial.discriminator)]


class StopsOnOneRank(LineTrial):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 1 and self.context.distributed.rank == 1:
            self.context.set_stop_requested(True)
        return super().train_batch(batch, epoch_idx, batch_idx)


class Whole(LineTrial):
    """Validates on the chief alone."""

    evaluate_batch = pytorch.PyTorchTrial.evaluate_batch

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        return {"rank": self.context.distributed.rank, "batches_seen": sum(1 for _ in data_loader), "word": "w"}


class Dropping(LineTrial):
    def make_model(self) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(line(), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)


def listeners() -> list[list[Any]]:
    """Return the addresses that this process listens on and that are not loopback."""
    found = []
    for connection in psutil.Process().net_connections(kind="all"):
        address = connection.laddr
        if connection.status == psutil.CONN_LISTEN and not address.ip.startswith("127.") and address.ip != "::1":
            found.append([address.ip, address.port])
    return found


class Listening(pytorch.PyTorchCallback):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_validation_start(self) -> None:
        self.heard += listeners()


def various() -> Any:
    """Everything that needs two ranks for a short time, in one start."""
    result: dict[str, Any] = {"gan 1": train_adversarial(1), "gan 2": train_adversarial(2)}

    stopped = fit(StopsOnOneRank, hparams=TWO, max_length=pytorch.Batch(50), reporting_period=pytorch.Batch(2))
    result["stopped after"] = len(stopped.batch_indices)

    recorder, listening = Recorder(), Listening()
    fit(with_callbacks(recorder, listening, base=Whole), hparams=TWO, max_length=pytorch.Batch(1))
    result["listeners"] = listening.heard
    result["rendezvous"] = int(os.environ["MASTER_PORT"])
    calls = dict(recorder.calls)
    result["whole"] = dict(calls["on_validation_end"][0])
    result["uuid"] = calls["on_checkpoint_upload_end"][0]
    result["chief's hooks"] = "on_checkpoint_save_start" in calls

    averages = calls["on_training_workload_end"][0]
    result["averages"] = averages["loss"]

    options: dict[str, Any] = {"aggregation_frequency": 4, "seed": 3, "seed_per_rank": True}
    whole = fit(Dropping, hparams=TWO, max_length=pytorch.Batch(9), checkpoint_period=pytorch.Batch(6), options=options)
    result["dropping"] = weights(whole.model)
    result["records"] = whole.records

    result["compressed"] = weights(fit(Compressed, hparams=TWO, max_length=pytorch.Batch(4)).model)
    result["refused"] = refused()
    result["signatures"] = signatures()
    return result


class Compressed(LineTrial):
    """Two optimizers for parts of one model, gradients exchanged in float16."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        torch.manual_seed(0)
        self.context = context
        self.model = context.wrap_model(small_model())
        first, second, *rest = self.model.parameters()
        self.optimizers = [
            context.wrap_optimizer(torch.optim.SGD(part, lr=0.1), fp16_compression=True)
            for part in ([first, second], rest)
        ]

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.context.backward(mse_loss(self.model(batch[0]), batch[1]))
        for optimizer in self.optimizers:
            self.context.step_optimizer(optimizer)
        return {"loss": 0.0}


def refused() -> list[str]:
    """Apex's restrictions on several ranks."""
    messages = []
    for aggregation, losses in ((1, 2), (2, 1)):
        with pytorch.init(hparams=TWO, aggregation_frequency=aggregation) as context:
            trial = LineTrial(context)
            try:
                context.configure_apex_amp(trial.model, trial.optimizer, num_losses=losses)
            except InvalidExperimentException as error:
                messages.append(str(error))
    return messages


class Columns(torch.nn.Module):
    """A model whose batches are selected by the names of its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, input_ids: torch.Tensor, *, labels: torch.Tensor | None = None) -> torch.Tensor:
        result: torch.Tensor = self.layer(input_ids)
        return result


def signatures() -> list[list[str]]:
    """Return the signatures of forward that libraries see: plain, under apex's levels, and under mixed precision."""
    found = []
    for automatic in (False, True):
        with pytorch.init(hparams=TWO) as context:
            if automatic:
                context.experimental.use_amp()
            model = context.wrap_model(Columns())
            assert isinstance(model, torch.nn.parallel.DistributedDataParallel)
            found.append(list(inspect.signature(model.forward).parameters))
            model(input_ids=torch.ones(1, 1), labels=None).sum().backward()
            if not automatic:
                again = pickle.loads(pickle.dumps(model))
                assert list(inspect.signature(again.forward).parameters) == found[-1]
                context.configure_apex_amp(model, context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.1)))
                found.append(list(inspect.signature(model.forward).parameters))
    return found


def resume(uuid: str) -> Any:
    options: dict[str, Any] = {"aggregation_frequency": 4, "seed": 8, "seed_per_rank": True}
    trial = fit(Dropping, hparams=TWO, max_length=pytorch.Batch(9), latest_checkpoint=uuid, options=options)
    return {"weights": weights(trial.model), "batches": trial.batch_indices, "records": trial.records}


def test_various_things_on_two_ranks(data_home: Path) -> None:
    first, second = (rank.value for rank in run_ranks(various, n=2, timeout=120))

    # All ranks stay equal, whatever is frozen, and the frozen model is the chief's.
    torch.manual_seed(0)
    frozen = weights(torch.nn.Linear(1, 1))
    for gan in ("gan 1", "gan 2"):
        assert first[gan] == second[gan]
        assert first[gan][0] == frozen
    single = fit(Adversarial, hparams=TWO, max_length=pytorch.Batch(4))
    for value, expected in zip(first["gan 1"][1], single.generator.parameters(), strict=True):
        torch.testing.assert_close(torch.tensor(value), expected)

    # One rank requests a stop, all stop.
    assert first["stopped after"] == second["stopped after"] == 2

    # The chief validates, all get the result.
    expected_metrics = {"rank": 0, "batches_seen": EPOCH_LENGTH, "word": "w", "batches": 1, "epochs": 0}
    assert first["whole"] == second["whole"] == expected_metrics
    assert first["uuid"] == second["uuid"]
    assert (first["chief's hooks"], second["chief's hooks"]) == (True, False)
    assert first["averages"] == second["averages"]

    # Shuffled data are distributed without overlap.
    for one, other in zip(first["records"][:3], second["records"][:3], strict=True):
        assert not {*one} & {*other}
    epoch = first["records"][:3] + second["records"][:3]
    assert sorted(record for batch in epoch for record in batch) == [*range(1, 13)]
    assert ["num_losses" in first["refused"][0], "aggregation_frequency" in first["refused"][1]] == [True, True]

    assert first["signatures"] == [["input_ids", "labels"]] * 3

    # Compressed gradients are nearly those of one rank, and the same on both.
    assert first["compressed"] == second["compressed"]
    exact = weights(fit(Compressed, hparams=TWO, max_length=pytorch.Batch(4)).model)
    assert exact != first["compressed"]
    for value, expected in zip(first["compressed"], exact, strict=True):
        torch.testing.assert_close(torch.tensor(value), torch.tensor(expected), atol=0.002, rtol=0.01)

    # Nothing listens where others could connect, except torch's store, which rank 0 holds if there is no agent.
    assert {port for _, port in first["listeners"]} <= {first["rendezvous"]}
    assert second["listeners"] == []

    # Half-way through an aggregation window, with a separate generator for each rank.
    uuid = next(
        one.name
        for one in checkpoints(data_home)
        if json.loads((one / "metadata.json").read_text())["steps_completed"] == 6
    )
    state = torch.load(data_home / "determined" / "checkpoints" / uuid / "state_dict.pth")
    assert not any(key.startswith("module.") for key in state["models_state_dict"][0])
    resumed = [rank.value for rank in run_ranks(resume, n=2, args=[uuid], timeout=60)]
    for before, after in zip((first, second), resumed, strict=True):
        assert after["batches"] == [6, 7, 8]
        assert after["records"] == before["records"][6:]
        assert after["weights"] == before["dropping"]

    # The same checkpoint on one rank: the weights fit, and training continues.
    assert fit(Dropping, hparams=TWO, max_length=pytorch.Batch(7), latest_checkpoint=uuid).batch_indices == [6]


def in_the_users_own_group() -> Any:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    distributed = core.DistributedContext(
        rank=rank, size=2, local_rank=rank, local_size=2, cross_rank=0, cross_size=1, chief_ip="127.0.0.1"
    )
    values = []
    for given in (distributed, None):
        trial = fit(Small, hparams=TWO, max_length=pytorch.Batch(2), options={"distributed": given}, seed=0)
        values.append(weights(trial.model))
    still_there = dist.is_initialized()
    dist.destroy_process_group()
    return {"weights": values, "group": still_there, "kind": type(trial.model).__name__}


def test_a_process_group_of_the_users_own() -> None:
    first, second = (
        rank.value for rank in run_ranks(in_the_users_own_group, n=2, env={"USE_TORCH_DISTRIBUTED": "True"}, timeout=60)
    )
    assert first == second
    assert first["weights"][0] == first["weights"][1]
    assert (first["group"], first["kind"]) == (True, "DistributedModel")


SCRIPT = f"""
import json, os, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from determined import pytorch
from tests.pytorch.ranks.test_distributed_training import TWO, Listening, Small, weights

with pytorch.init(hparams=TWO) as context:
    trial = Small(context)
    listening = Listening()
    trial.callbacks = {{"listening": listening}}
    pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(3), checkpoint_policy="none")
    found = {{"rank": context.distributed.rank, "size": context.distributed.size, "weights": weights(trial.model)}}
found["listeners"] = listening.heard
with open(sys.argv[1] + "/" + os.environ["RANK"] + ".json", "w") as file:
    json.dump(found, file)
"""


@pytest.mark.parametrize(
    "launcher", ["torchrun", pytest.param("determined.launch.torch_distributed", marks=pytest.mark.thorough)]
)
def test_launchers(launcher: str, work_dir: Path, data_home: Path, tmp_path: Path) -> None:
    (work_dir / "train.py").write_text(SCRIPT)
    command = {
        "torchrun": [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc_per_node",
            "2",
            "--standalone",
            "train.py",
        ],
        "determined.launch.torch_distributed": [
            sys.executable,
            "-m",
            "determined.launch.torch_distributed",
            "--nproc_per_node",
            "2",
            "--",
            "python",
            "train.py",
        ],
    }[launcher]
    ran = warm.run(
        [*command, str(work_dir)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},  # torchrun keeps the logs of its ranks
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    first, second = (json.loads((work_dir / f"{rank}.json").read_text()) for rank in (0, 1))
    assert (first["rank"], second["rank"], first["size"]) == (0, 1, 2)
    assert first["weights"] == second["weights"]
    assert len(metrics(data_home, "training")) == 1
    assert len(checkpoints(data_home)) == 1
    # Torch's own rendezvous may listen on any address: under both launchers it is in the agent, not in a rank.
    assert first["listeners"] == second["listeners"] == []
