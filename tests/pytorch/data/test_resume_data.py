"""A resumed run continues in its data: any sampler, with workers or without, other loaders, other numbers of ranks."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler as StatefulRandomSampler

from determined import errors, pytorch
from determined.pytorch.data.closed_form import ShuffleSampler, mix
from determined.pytorch.data.loader import load_sharded, order_by_seed, shard
from determined.pytorch.data.position import DataPosition
from determined.pytorch.display import waiting_notice
from tests.helpers import warm
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, checkpoints, fit, metrics

RECORDS = 11
SIZE = 2
PASS = 6  # batches
TRAINED = 15
RESUME_AT = [3, PASS, 8, 2 * PASS + 2]  # in the first pass, at its end, in the second, in the third

torchdata_warns = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata's own


class Numbers(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return RECORDS


class Noise(Numbers):
    """Random augmentation, by all three generators."""

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, torch.rand(()).item(), np.random.rand(), random.random()], dtype=torch.float64)


class DataTrial(LineTrial):
    """Trains nothing, draws random numbers between batches, and records what it got and drew."""

    make_loader: Callable[[], Any]
    draw = True

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.seen: list[Any] = []
        context.experimental.disable_dataset_reproducibility_checks()

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        drawn = [torch.rand(()).item(), np.random.rand(), random.random()] if self.draw else []
        self.seen.append([batch_idx, epoch_idx, batch.tolist(), drawn])
        return {}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"nothing": 0}

    def build_training_data_loader(self) -> Any:
        return self.make_loader()

    def build_validation_data_loader(self) -> Any:
        return pytorch.DataLoader(Numbers(), batch_size=RECORDS)


def trial_with(make_loader: Callable[[], Any], **members: Any) -> type[DataTrial]:
    return type("DataTrial", (DataTrial,), {"make_loader": staticmethod(make_loader), **members})


def seed_others(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)


def assert_resumes_exactly(make_loader: Callable[[], Any], data_home: Path, **members: Any) -> list[Any]:
    trial_class = trial_with(make_loader, **members)
    seed_others(1)
    whole = fit(trial_class, seed=1, max_length=pytorch.Batch(TRAINED), checkpoint_period=pytorch.Batch(RESUME_AT))
    assert len(whole.seen) == TRAINED
    for at, saved in zip(RESUME_AT, checkpoints(data_home), strict=False):  # there is one more at the end
        seed_others(2)  # a new process has other generators
        rest = fit(trial_class, seed=2, max_length=pytorch.Batch(TRAINED), latest_checkpoint=str(saved))
        assert rest.seen == whole.seen[at:], f"after {at} batches"
    return whole.seen


# Samplers of the user


class ByPythonsGenerator:
    """A common form: a new shuffle in each iteration."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(RECORDS))
        random.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return RECORDS


class CountsPasses:
    """The order depends on how often it was iterated before."""

    passes = 0

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        return iter(torch.randperm(RECORDS, generator=torch.Generator().manual_seed(self.passes)).tolist())

    def __len__(self) -> int:
        return RECORDS


class NoLength(CountsPasses):
    __len__ = None  # type: ignore[assignment]


class OwnState:
    """Its order follows from a number that each new instance draws, and that only its state contains."""

    def __init__(self) -> None:
        self.secret = random.SystemRandom().randrange(2**40)
        self.passes = self.at = 0

    def __iter__(self) -> Iterator[int]:
        order = random.Random(self.secret + self.passes).sample(range(RECORDS), RECORDS)
        while self.at < RECORDS:
            self.at += 1
            yield order[self.at - 1]
        self.at, self.passes = 0, self.passes + 1

    def __len__(self) -> int:
        return RECORDS

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class OwnBatches(OwnState):
    """A custom batch sampler: 1 record after an even one, else 2."""

    def __iter__(self) -> Iterator[Any]:
        records = super().__iter__()
        for first in records:
            yield [first] if first % 2 else [first, next(records, first)]

    def __len__(self) -> int:
        return 8


def seeded(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


WEIGHTS = [1.0 + i for i in range(RECORDS)]

SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": dict,
    "shuffle": lambda: {"shuffle": True},
    "shuffle, last dropped": lambda: {"shuffle": True, "drop_last": True},
    "generator": lambda: {"shuffle": True, "generator": seeded()},
    "random": lambda: {"sampler": RandomSampler(Numbers())},
    "random, replaced": lambda: {"sampler": RandomSampler(Numbers(), replacement=True, num_samples=70)},
    "weighted": lambda: {"sampler": WeightedRandomSampler(WEIGHTS, RECORDS)},
    "weighted, generator": lambda: {"sampler": WeightedRandomSampler(WEIGHTS, RECORDS, generator=seeded())},
    "subset": lambda: {"sampler": SubsetRandomSampler(range(1, RECORDS))},
    "list": lambda: {"sampler": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]},
    "list of batches": lambda: {"batch_sampler": [[3, 1], [4], [1, 5, 9], [2, 6]]},
    "python's generator": lambda: {"sampler": ByPythonsGenerator()},
    "counts passes": lambda: {"sampler": CountsPasses()},
    "no length": lambda: {"sampler": NoLength()},
    "own state": lambda: {"sampler": OwnState()},
    "own batches": lambda: {"batch_sampler": OwnBatches()},
    "torchdata": lambda: {"sampler": StatefulRandomSampler(Numbers(), generator=seeded())},
}


def own_loader(sampler: str, data_set: Any = None, **options: Any) -> pytorch.DataLoader:
    arguments = SAMPLERS[sampler]()
    if "batch_sampler" not in arguments:
        arguments["batch_size"] = SIZE
    return pytorch.DataLoader(data_set or Noise(), **arguments, **options)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_any_sampler_continues_in_the_middle(sampler: str, data_home: Path) -> None:
    assert_resumes_exactly(lambda: own_loader(sampler), data_home)


@pytest.mark.parametrize("sampler", ["shuffle", "random", "weighted", "python's generator", "own state", "torchdata"])
def test_any_sampler_continues_in_the_middle_with_workers(sampler: str, data_home: Path) -> None:
    assert_resumes_exactly(lambda: own_loader(sampler, num_workers=2), data_home)


@pytest.mark.parametrize("workers", [(0, 2), (2, 0)])
def test_workers_may_come_and_go(workers: tuple[int, int], data_home: Path) -> None:
    def trial_class(number: int) -> type[DataTrial]:
        return trial_with(lambda: own_loader("shuffle", Numbers(), num_workers=number))

    before, after = map(trial_class, workers)
    whole = fit(before, max_length=pytorch.Batch(TRAINED), checkpoint_period=pytorch.Batch(8))
    rest = fit(after, seed=2, max_length=pytorch.Batch(TRAINED), latest_checkpoint=str(checkpoints(data_home)[0]))
    assert rest.seen == whole.seen[8:]


def test_the_global_order_of_old_releases_continues_too(data_home: Path) -> None:
    def old_order(self: DataTrial, context: pytorch.PyTorchTrialContext) -> None:
        DataTrial.__init__(self, context)
        context.experimental.use_global_shuffle()

    assert_resumes_exactly(lambda: own_loader("shuffle"), data_home, __init__=old_order)


def test_a_recipe_with_its_own_way_of_making_the_loader_is_asked_for_it(data_home: Path) -> None:
    class Backwards(pytorch.DataLoader):
        def get_data_loader(self, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0) -> Any:
            loader = super().get_data_loader(repeat, skip, num_replicas, rank)
            loader.collate_fn = lambda records: -torch.tensor(records)
            return loader

    trial = assert_resumes_exactly(lambda: Backwards(Numbers(), SIZE), data_home)
    assert trial[0][2] == [0, -1]


def test_walking_a_long_way_is_shown(
    data_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_notice, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setenv("DET_PROGRESS", "1")
    trial_class = trial_with(lambda: own_loader("counts passes"))
    fit(trial_class, max_length=pytorch.Batch(8))
    capsys.readouterr()
    fit(trial_class, max_length=pytorch.Batch(9), latest_checkpoint=str(checkpoints(data_home)[-1]))
    assert "advancing the sampler to where training was: batch 8/8\n" in capsys.readouterr().err


# Random numbers in workers


def test_random_numbers_of_a_batch_do_not_depend_on_the_workers(data_home: Path) -> None:
    def seen(**options: Any) -> list[Any]:
        trial_class = trial_with(lambda: own_loader("shuffle", **options))
        return fit(trial_class, options={"seed": 3}, max_length=pytorch.Batch(TRAINED)).seen

    one, two = seen(num_workers=1), seen(num_workers=2, persistent_workers=True, prefetch_factor=4)
    assert [batch for _, _, batch, _ in one] == [batch for _, _, batch, _ in two]
    noise = [record[1:] for _, _, batch, _ in one for record in batch]
    assert len({number for numbers in noise for number in numbers}) == 3 * len(noise), "each drawn once"


class Told(Numbers):
    extra = 0

    def __getitem__(self, index: int) -> Any:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        return torch.tensor([self.extra, info.dataset is self, info.seed == self.seed_at_start])  # type: ignore[attr-defined]


def tell(worker_id: int) -> None:
    info = torch.utils.data.get_worker_info()
    assert info is not None
    info.dataset.extra = 40 + worker_id  # type: ignore[attr-defined]
    info.dataset.seed_at_start = torch.initial_seed()  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_init_fn_has_the_data_set_and_the_seed_of_torch(method: str) -> None:
    def loader() -> pytorch.DataLoader:
        return pytorch.DataLoader(Told(), 2, num_workers=1, worker_init_fn=tell, multiprocessing_context=method)

    trial = fit(trial_with(loader), max_length=pytorch.Batch(1))
    assert trial.seen[0][2] == [[40, 1, 1], [40, 1, 1]]


def test_evaluate_full_dataset_sees_its_own_data_set_behind_the_workers(data_home: Path) -> None:
    class Whole(DataTrial):
        evaluate_batch = pytorch.PyTorchTrial.evaluate_batch

        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            indices = [index for batch in data_loader.batch_sampler for index in batch]
            read = torch.cat(list(data_loader))
            assert len(data_loader.dataset) == len(data_loader.sampler) == len(indices)
            return {"all": len(read)}

        def build_validation_data_loader(self) -> Any:
            return pytorch.DataLoader(Numbers(), batch_size=4, num_workers=1)

    Whole.make_loader = staticmethod(lambda: own_loader("shuffle"))
    fit(Whole, max_length=pytorch.Batch(1))
    assert [row["all"] for row in metrics(data_home, "validation")] == [RECORDS]


def test_a_program_that_leaves_an_iterator_with_workers_behind_ends() -> None:
    program = """
from determined import pytorch
batches = iter(pytorch.DataLoader(list(range(8)), batch_size=2, num_workers=1))
print(next(batches).tolist())
"""
    done = warm.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[0, 1]\n"), done.stderr


# Loaders that are not ours


class Stream(IterableDataset[Any]):
    """Draws its own numbers from the program's generator; passes differ."""

    passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        for index in range(RECORDS):
            yield torch.tensor([self.passes, index, torch.rand(()).item()], dtype=torch.float64)


class StreamWithState(Stream):
    at = 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < RECORDS:
            self.at += 1
            yield torch.tensor([self.passes, self.at, torch.rand(()).item()], dtype=torch.float64)
        self.at, self.passes = 0, self.passes + 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "passes": self.passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.passes = state["at"], state["passes"]


def torch_loader(data_set: Any, **options: Any) -> Any:
    return torch.utils.data.DataLoader(data_set, batch_size=SIZE, **options)


class Batches:
    """A custom iterable, with a state or without."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        self.passes += 1
        for number in range(4):
            yield torch.tensor([self.passes, number])


STATEFUL: dict[str, Callable[[], Any]] = {
    "torchdata": lambda: StatefulDataLoader(Noise(), batch_size=SIZE, shuffle=True),
    "torchdata, workers": lambda: StatefulDataLoader(Numbers(), batch_size=SIZE, shuffle=True, num_workers=2),
    "torchdata, stream": lambda: StatefulDataLoader(StreamWithState(), batch_size=SIZE),
    "data set": lambda: torch_loader(StreamWithState()),
}

READ_AGAIN: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch_loader(Noise()),
    "torch, shuffled": lambda: torch_loader(Noise(), shuffle=True),
    "torch, generator": lambda: torch_loader(Noise(), shuffle=True, generator=seeded()),
    "torch, workers": lambda: torch_loader(Noise(), shuffle=True, num_workers=2),
    "torch, user's sampler": lambda: torch_loader(Noise(), sampler=CountsPasses()),
    "stream": lambda: torch_loader(Stream()),
    "stream, workers": lambda: torch_loader(StreamWithState(), num_workers=1),
    "list": lambda: [torch.tensor([i]) for i in range(4)],
    "generator": lambda: (torch.tensor([i]) for i in range(40)),
    "own": Batches,
}


@torchdata_warns
@pytest.mark.parametrize("kind", STATEFUL)
def test_a_loader_with_a_state_continues_from_it(kind: str, data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert_resumes_exactly(STATEFUL[kind], data_home)
    assert "read again" not in caplog.text


@pytest.mark.parametrize("kind", READ_AGAIN)
def test_any_other_loader_is_read_again_to_where_it_was(
    kind: str, data_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert_resumes_exactly(READ_AGAIN[kind], data_home)
    told = [record.getMessage() for record in caplog.records if "read again" in record.getMessage()]
    assert len(told) == len(RESUME_AT), "once in each resumed run"
    assert all("pytorch.DataLoader" in one and "state_dict" in one for one in told)


def test_passes_that_do_not_matter_are_not_read_again(
    data_home: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_notice, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setenv("DET_PROGRESS", "1")
    assert_resumes_exactly(READ_AGAIN["torch, shuffled"], data_home)
    assert "reading data again to where training was: batch 6/6\n" in capsys.readouterr().err
    told = [record.getMessage() for record in caplog.records if "cannot start in the middle" in record.getMessage()]
    assert len(told) == len(RESUME_AT)
    counts = [int(one.partition(" middle: ")[2].split()[0]) for one in told]
    assert counts == [3, PASS, 2, 2], "of the pass under way only"


def test_a_program_that_skips_batches_itself_is_not_disturbed(
    data_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Skipping(DataTrial):
        def build_training_data_loader(self) -> Any:
            return [torch.tensor([i]) for i in range(self.context.get_initial_batch(), 20)]

    whole = fit(Skipping, max_length=pytorch.Batch(9), checkpoint_period=pytorch.Batch(4))
    rest = fit(Skipping, max_length=pytorch.Batch(9), latest_checkpoint=str(checkpoints(data_home)[0]))
    assert [entry[2] for entry in rest.seen] == [entry[2] for entry in whole.seen[4:]]
    assert "read again" not in caplog.text


def test_a_state_that_no_checkpoint_can_hold_is_named(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Batches):
        def state_dict(self) -> Any:
            return {"lock": threading.Lock()}

        def load_state_dict(self, state: Any) -> None: ...

    fit(trial_with(Odd), max_length=pytorch.Batch(2))
    (checkpoint,) = checkpoints(data_home)
    assert f"checkpoint {checkpoint.name} is incomplete" in caplog.text
    missing = r"the state of the training data loader\['lock'\] is a _thread\.lock"
    with pytest.raises(errors.InvalidCheckpointException, match=missing):
        fit(trial_with(Odd), max_length=pytorch.Batch(3), latest_checkpoint=checkpoint.name)


# Other numbers of ranks

MANY = 50


class OnRanks(DataTrial):
    """Batches of a fixed size (`size`), or of the share of a global one."""

    size: int | None = None
    draw = False

    def build_training_data_loader(self) -> Any:
        size = self.size or self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(range(MANY), batch_size=size, shuffle=True)


def train_part(size: int | None, batches: int | None, epochs: int | None, checkpoint: str | None) -> list[Any]:
    """Train one part of a run on these ranks; return each batch."""
    trial_class = type("OnRanks", (OnRanks,), {"size": size})
    length: Any = pytorch.Batch(batches) if batches is not None else pytorch.Epoch(epochs or 0)
    trial = fit(
        trial_class,
        hparams={"global_batch_size": 12},
        options={"seed": 9 if checkpoint is None else 10},  # the checkpoint's counts
        max_length=length,
        latest_checkpoint=checkpoint,
    )
    return cast(list[Any], trial.seen)


def run_part(ranks: int, data_home: Path, *args: Any) -> tuple[list[list[int]], list[Any]]:
    """Return the batches in the order in which they were distributed, and those of the chief with their numbers."""
    checkpoint = str(checkpoints(data_home)[-1]) if data_home.exists() else None
    if ranks == 1:
        size, batches, epochs = args
        parts = [train_part(size, batches, epochs, checkpoint)]
    else:
        results = run_ranks(train_part, ranks, args=[*args, checkpoint], env={"DET_PROGRESS": "0"}, cwd=Path.cwd())
        parts = [result.value for result in results]
    return [entry[2] for turn in zip(*parts, strict=True) for entry in turn], parts[0]


def expected_records(passes: int) -> list[int]:
    sampler = ShuffleSampler(range(MANY))
    return [record for number in range(passes) for record in sampler.permutation(mix(9, 0), number).tolist()]


def flat(batches: list[list[int]]) -> list[int]:
    return [record for batch in batches for record in batch]


def test_two_ranks_then_one_then_two_keep_the_order_of_records(data_home: Path) -> None:
    """5 records a batch, 10 batches a pass: exactly four passes are trained."""
    first, _ = run_part(2, data_home, 5, 7, None)
    second, chief = run_part(1, data_home, 5, 10, None)
    third, last = run_part(2, data_home, 5, None, 4)
    assert [len(first), len(second), len(third)] == [14, 3, 40 - 17 + 1]
    records = flat(first + second + third)
    assert records[: 4 * MANY] == expected_records(4)
    assert [entry[:2] for entry in chief] == [[7, 1], [8, 1], [9, 1]]
    # Three batches of the second pass remain, two for each rank; the fourth of them begins the third pass.
    assert [entry[1] for entry in last] == [1] * 2 + [2] * 5 + [3] * 5


@pytest.mark.thorough
def test_a_global_batch_size_shared_by_other_numbers_of_ranks_keeps_the_order_of_records(data_home: Path) -> None:
    """12 records a step on 2, 3 and 1 ranks: batches of 6, 4 and 12."""
    first, _ = run_part(2, data_home, None, 3, None)
    second, _ = run_part(3, data_home, None, 6, None)
    third, last = run_part(1, data_home, None, None, 3)
    records = flat(first + second + third)
    assert records == expected_records(3)
    assert {len(batch) for batch in first} <= {6, MANY % 6}
    assert last[-1][1] == 2


def test_random_numbers_in_workers_are_those_of_the_batch_on_any_rank() -> None:
    """The batches of one rank are distributed to two."""
    loader = pytorch.DataLoader(Noise(), SIZE, shuffle=True, num_workers=1)
    order_by_seed(loader, 3)

    def batches(ranks: int, rank: int, count: int) -> list[Any]:
        own = iter(load_sharded(loader, shard(loader, DataPosition(), ranks, rank)))
        return [next(own).tolist() for _ in range(count)]

    alone = batches(1, 0, 8)
    assert alone[0::2] == batches(2, 0, 4)
    assert alone[1::2] == batches(2, 1, 4)


def stateful_on_ranks(batches: int, checkpoint: str | None) -> list[Any]:
    """Return a loader with a state, which reads every record of this rank."""
    warnings.filterwarnings("ignore", "'set_vital' is deprecated")

    class Sharded(DataTrial):
        def build_training_data_loader(self) -> Any:
            mine: Any = torch.utils.data.Subset(Noise(), range(self.context.distributed.rank, RECORDS, 2))
            return StatefulDataLoader(mine, batch_size=SIZE, shuffle=True)

    return fit(
        Sharded,
        seed=1 if checkpoint is None else 2,
        options={"seed_per_rank": True} if checkpoint is None else {},
        max_length=pytorch.Batch(batches),
        checkpoint_period=pytorch.Batch(4),
        latest_checkpoint=checkpoint,
    ).seen


@torchdata_warns
def test_every_rank_keeps_the_state_of_its_loader(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = [result.value for result in run_ranks(stateful_on_ranks, args=[8, None], cwd=Path.cwd())]
    (saved, _) = checkpoints(data_home)
    results = run_ranks(stateful_on_ranks, args=[8, str(saved)], cwd=Path.cwd())
    assert [result.value for result in results] == [seen[4:] for seen in whole]
    assert whole[0] != whole[1]

    stateful_on_ranks(5, str(saved))
    assert "was used on 2 ranks, and now there are 1" in caplog.text


def sampler_on_ranks(batches: int, checkpoint: str | None) -> list[Any]:
    seed_others(1)
    trial_class = trial_with(lambda: pytorch.DataLoader(Noise(), 2, sampler=RandomSampler(range(9))))  # 5 batches
    return fit(
        trial_class,
        seed=1 if checkpoint is None else 2,
        max_length=pytorch.Batch(batches),
        checkpoint_period=pytorch.Batch(3),
        latest_checkpoint=checkpoint,
    ).seen


@pytest.mark.thorough
def test_a_sampler_that_draws_from_the_programs_generators_continues_on_two_ranks(data_home: Path) -> None:
    """After 3 batches of each rank the chief has not yet begun the second pass, and the other rank has."""
    whole = [result.value for result in run_ranks(sampler_on_ranks, args=[8, None], cwd=Path.cwd())]
    results = run_ranks(sampler_on_ranks, args=[8, str(checkpoints(data_home)[0])], cwd=Path.cwd())
    assert [result.value for result in results] == [seen[3:] for seen in whole]


# All together


class Augmented(LineTrial):
    """Dropout, batch normalisation and Adam over data that loader workers change at random."""

    kill_at: int | None = None

    def make_model(self) -> torch.nn.Module:
        layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)]
        return torch.nn.Sequential(*layers)

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(self.make_model())
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=0.01))
        self.seen: list[Any] = []

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen.append(batch.tolist())
        loss = self.model(batch.float()).pow(2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"value": self.model(batch.float()).mean()}

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Noise(), SIZE, shuffle=True, num_workers=1, drop_last=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Noise(), SIZE, num_workers=1)


def train_augmented(kill_at: int | None, checkpoint: str | None) -> list[Any]:
    trial = fit(
        type("Augmented", (Augmented,), {"kill_at": kill_at}),
        options={"seed": 1},
        max_length=pytorch.Batch(12),
        checkpoint_period=pytorch.Batch(2),
        validation_period=pytorch.Batch(5),
        latest_checkpoint=checkpoint,
    )
    weights = {name: value.tolist() for name, value in trial.model.state_dict().items()}
    return [trial.seen, weights]


@pytest.mark.thorough
def test_killed_ranks_with_workers_resume_to_the_same_weights(data_home: Path) -> None:
    whole = [result.value for result in run_ranks(train_augmented, args=[None, None], cwd=Path.cwd())]
    reported = metrics(data_home, "validation")
    killed = run_ranks(train_augmented, args=[9, None], cwd=Path.cwd(), check=False)
    assert -signal.SIGKILL in [rank.returncode for rank in killed], "\n".join(map(str, killed))
    saved = checkpoints(data_home)[-1]
    rest = [result.value for result in run_ranks(train_augmented, args=[None, str(saved)], cwd=Path.cwd())]
    for (seen, weights), (seen_after, weights_after) in zip(whole, rest, strict=True):
        assert 3 <= len(seen_after) < 12, "of the batches that were trained before, most are not trained again"
        assert seen_after == seen[-len(seen_after) :]
        assert weights_after == weights
    assert metrics(data_home, "validation")[-1] == reported[-1]
