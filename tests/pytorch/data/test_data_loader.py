"""`pytorch.DataLoader` and foreign loaders, outside and inside the loop."""

from __future__ import annotations

import inspect
import itertools
import multiprocessing
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, Dataset, IterableDataset, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from determined import pytorch
from determined.errors import InvalidExperimentException
from determined.pytorch.data.loader import order_by_seed
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, fit, metrics


class Numbers(Dataset[int]):
    def __init__(self, records: int) -> None:
        self.records = records

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return self.records


class Stream(IterableDataset[int]):
    def __init__(self, records: int) -> None:
        self.records = records

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.records))


def lists(loader: Any, batches: int | None = None) -> list[Any]:
    return [batch.tolist() for batch in itertools.islice(iter(loader), batches)]


class OrderTrial(LineTrial):
    """Trains on numbers and records their order; the model does not matter."""

    make_train: Callable[[], Any]
    make_validation: Callable[[], Any] = staticmethod(lambda: pytorch.DataLoader(Numbers(4), batch_size=2))
    any_loader = False

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.seen: list[Any] = []
        self.validated: list[Any] = []
        if self.any_loader:
            context.experimental.disable_dataset_reproducibility_checks()

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.seen.append(batch.tolist())
        self.epoch_indices.append(epoch_idx)
        return {}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        self.validated.append(batch.tolist())
        return {"sum": batch.sum()}

    def build_training_data_loader(self) -> Any:
        return self.make_train()

    def build_validation_data_loader(self) -> Any:
        return self.make_validation()


def order_trial(
    train: Callable[[], Any], validation: Callable[[], Any] | None = None, any_loader: bool = False
) -> type[OrderTrial]:
    members: dict[str, Any] = {"make_train": staticmethod(train), "any_loader": any_loader}
    if validation is not None:
        members["make_validation"] = staticmethod(validation)
    return type("OrderTrial", (OrderTrial,), members)


# Arguments


def test_arguments_are_torchs_in_torchs_order() -> None:
    ours = list(inspect.signature(pytorch.DataLoader).parameters)
    theirs = list(inspect.signature(torch.utils.data.DataLoader).parameters)
    assert ours[:13] == theirs[:13]
    assert ours[12] == "generator"


def test_defaults_and_members() -> None:
    dataset = Numbers(5)
    loader = pytorch.DataLoader(dataset)
    assert (loader.dataset, loader.batch_size, loader.drop_last, loader.num_workers) == (dataset, 1, False, 0)
    assert (loader.pin_memory, loader.timeout, loader.worker_init_fn) == (False, 0, None)
    assert (loader.multiprocessing_context, loader.generator) == (None, None)
    assert (loader.prefetch_factor, loader.persistent_workers) == (None, False)
    assert loader.collate_fn is torch.utils.data.default_collate
    assert len(loader) == 5
    assert list(loader.sampler) == [0, 1, 2, 3, 4]
    assert list(loader.batch_sampler) == [[0], [1], [2], [3], [4]]
    assert pytorch.DataLoader(dataset, num_workers=1).prefetch_factor == 2
    assert pytorch.DataLoader(dataset, num_workers=1, prefetch_factor=4).prefetch_factor == 4


def test_a_custom_batch_sampler_leaves_no_batch_size() -> None:
    batches = [[0, 1], [4]]
    loader = pytorch.DataLoader(Numbers(5), batch_sampler=batches)
    assert loader.batch_size is None
    assert loader.batch_sampler is batches
    assert lists(loader) == batches
    assert len(loader) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"dataset": Stream(3)},
        {"batch_size": None},
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"prefetch_factor": -1, "num_workers": 1},
        {"persistent_workers": True},
        {"sampler": [0, 1], "shuffle": True},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "shuffle": True},
        {"batch_sampler": [[0]], "sampler": [0]},
        {"batch_sampler": [[0]], "drop_last": True},
        {"batch_size": 0},
        {"batch_size": -3},
        {"batch_size": 1.5},
    ],
    ids=lambda arguments: ",".join(arguments),
)
def test_refusals(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="|".join([*arguments, "IterableDataset"])):
        pytorch.DataLoader(**{"dataset": Numbers(4), **arguments})


def test_newer_arguments_of_torch_are_forwarded_and_unknown_ones_refused() -> None:
    loader = pytorch.DataLoader(Numbers(4), num_workers=1, in_order=False)
    assert loader.get_data_loader().in_order is False
    with pytest.raises(TypeError, match="shufle"):
        pytorch.DataLoader(Numbers(4), shufle=True)


# Outside the loop


def test_outside_the_loop_it_is_a_torch_loader_over_one_pass() -> None:
    loader = pytorch.DataLoader(Numbers(5), batch_size=2)
    assert isinstance(loader.get_data_loader(), torch.utils.data.DataLoader)
    assert loader.get_data_loader() is not loader.get_data_loader()
    assert lists(loader) == [[0, 1], [2, 3], [4]] == lists(loader)
    assert lists(loader.get_data_loader(skip=1, num_replicas=2, rank=0)) == [[4]]
    assert lists(loader.get_data_loader(repeat=True, skip=2, num_replicas=1), 3) == [[4], [0, 1], [2, 3]]


def _double(records: list[int]) -> torch.Tensor:
    return torch.tensor(records) * 2


class Pairs(Dataset[Any]):
    """Records of every kind that the default collate function knows."""

    kinds: dict[str, Callable[[int], Any]] = {
        "tensors": lambda i: (torch.ones(2) * i, torch.tensor(i)),
        "mixed": lambda i: (torch.ones(2) * i, i, float(i), f"name {i}", np.ones(2) * i, {"x": torch.tensor(i)}),
        "nested": lambda i: ((torch.ones(1) * i, i), [torch.ones(2) * i]),
        "dict": lambda i: {"data": torch.ones(2) * i, "label": i},
        "tensor": lambda i: torch.ones(2) * i,
        "string": lambda i: str(i),
        "nothing": lambda i: (),
    }

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __getitem__(self, index: int) -> Any:
        return self.kinds[self.kind](index)

    def __len__(self) -> int:
        return 5


@pytest.mark.parametrize("kind", Pairs.kinds)
def test_batches_are_those_of_torch(kind: str) -> None:
    ours = list(pytorch.DataLoader(Pairs(kind), batch_size=2))
    theirs = list(torch.utils.data.DataLoader(Pairs(kind), batch_size=2))
    assert repr(ours) == repr(theirs)


def test_records_of_unequal_length_are_torchs_error() -> None:
    records: Any = [(1, 2), (1,)]
    with pytest.raises(RuntimeError, match="equal size"):
        list(pytorch.DataLoader(records, batch_size=2))


def test_getitems_and_collate_fn_are_used() -> None:
    class Many(Numbers):
        asked: list[list[int]] = []

        def __getitems__(self, indices: list[int]) -> list[int]:
            self.asked.append(indices)
            return indices

    loader = pytorch.DataLoader(Many(3), batch_size=2, collate_fn=_double)
    assert lists(loader) == [[0, 2], [4]]
    assert Many.asked == [[0, 1], [2]]


def test_it_can_be_pickled() -> None:
    loader = pytorch.DataLoader(Numbers(9), batch_size=2, shuffle=True)
    order_by_seed(loader, 3)
    assert lists(pickle.loads(pickle.dumps(loader))) == lists(loader)


def test_workers_give_the_same_batches_in_the_same_order() -> None:
    for shuffle in (False, True):
        orders = []
        for workers in (0, 2):
            torch.manual_seed(4)
            loader = pytorch.DataLoader(Numbers(9), batch_size=2, shuffle=shuffle, num_workers=workers)
            repeated = loader.get_data_loader(repeat=True, skip=2, num_replicas=2, rank=1)
            orders.append([lists(loader), lists(repeated, 6)])
        assert orders[0] == orders[1]


def test_shuffle_outside_the_loop_follows_torchs_seed() -> None:
    def order(seed: int) -> list[Any]:
        torch.manual_seed(seed)
        loader = pytorch.DataLoader(Numbers(40), batch_size=4, shuffle=True)
        return [lists(loader), lists(loader), lists(loader.get_data_loader(repeat=True), 30)]

    assert order(1) == order(1)
    one_pass, next_pass, passes = order(1)
    assert one_pass != next_pass
    assert passes[:10] != passes[10:20] != passes[20:]
    assert order(2)[0] != one_pass
    for records in (one_pass, passes[10:20]):
        assert sorted(r for batch in records for r in batch) == list(range(40))


class Noise(Numbers):
    def __getitem__(self, index: int) -> Any:
        return torch.rand(())


def test_random_numbers_in_workers_follow_from_seed_rank_and_position() -> None:
    loader = pytorch.DataLoader(Noise(8), batch_size=2, num_workers=1)
    order_by_seed(loader, 3)

    def noise(**position: int) -> list[Any]:
        state = torch.get_rng_state()
        found = lists(loader.get_data_loader(repeat=True, num_replicas=2, **position), 2)
        assert torch.equal(torch.get_rng_state(), state)
        return found

    assert noise(rank=0, skip=0) == noise(rank=0, skip=0)
    assert noise(rank=0, skip=0) != noise(rank=1, skip=0)
    assert noise(rank=0, skip=0) != noise(rank=0, skip=2)


def test_reproducible_shuffle_is_the_same_with_workers() -> None:
    batches = pytorch.samplers.ReproducibleShuffleBatchSampler([[i] for i in range(5)], 777)
    loader = pytorch.DataLoader(Numbers(5), batch_sampler=batches, num_workers=1)
    assert lists(loader) == [[0], [4], [1], [2], [3]]
    assert lists(loader) == [[2], [0], [1], [3], [4]]


@pytest.mark.parametrize("workers", [0, 2])
def test_order_of_a_users_generator_is_bit_for_bit_torchs(workers: int) -> None:
    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(42)

    mine, theirs = generator(), generator()
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True, "num_workers": workers}
    ours = pytorch.DataLoader(Numbers(10), generator=mine, **options)
    reference = torch.utils.data.DataLoader(Numbers(10), generator=theirs, **options)
    for _ in range(2):
        assert lists(ours) == lists(reference)
        assert torch.equal(mine.get_state(), theirs.get_state())

    # Repeating: one base seed for the one iterator, then per pass one permutation and one that is discarded.
    by_hand = generator()
    torch.empty((), dtype=torch.int64).random_(generator=by_hand)
    expected = []
    for _ in range(3):
        order = torch.randperm(10, generator=by_hand).tolist()
        expected += [order[at : at + 3] for at in range(0, 10, 3)]
        torch.randperm(10, generator=by_hand)
    repeated = pytorch.DataLoader(Numbers(10), generator=generator(), **options).get_data_loader(repeat=True)
    assert lists(repeated, 12) == expected


# In the loop


@pytest.mark.parametrize("shuffle", [False, True])
def test_two_epochs_of_a_users_generator_are_exactly_two_passes(shuffle: bool) -> None:
    class Counting:
        passes = given = 0

        def __iter__(self) -> Iterator[int]:
            Counting.passes += 1
            for index in range(6):
                Counting.given += 1
                yield index

        def __len__(self) -> int:
            return 6

    generator = torch.Generator().manual_seed(1)
    options: dict[str, Any] = {"shuffle": True, "generator": generator} if shuffle else {"sampler": Counting()}
    trial = fit(
        order_trial(lambda: pytorch.DataLoader(Numbers(6), batch_size=2, **options)), max_length=pytorch.Epoch(2)
    )
    assert len(trial.seen) == 6
    if not shuffle:
        assert (Counting.passes, Counting.given) == (2, 12)
        return
    expected = torch.Generator().manual_seed(1)
    torch.empty((), dtype=torch.int64).random_(generator=expected)
    order = torch.randperm(6, generator=expected).tolist()
    torch.randperm(6, generator=expected)
    order += torch.randperm(6, generator=expected).tolist()
    assert [r for batch in trial.seen for r in batch] == order
    assert torch.equal(generator.get_state(), expected.get_state())


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffle_in_the_loop_follows_the_seed_and_leaves_global_generators_alone(workers: int) -> None:
    def order(torch_seed: int, workers: int, **options: Any) -> list[Any]:
        def loader() -> pytorch.DataLoader:
            return pytorch.DataLoader(Numbers(20), batch_size=4, shuffle=True, num_workers=workers)

        states = []

        class Watching(order_trial(loader, loader)):  # type: ignore[misc]
            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                numpys = np.random.get_state(legacy=False)["state"]["key"]
                states.append((torch.get_rng_state(), numpys, random.getstate()))
                return cast(dict[str, Any], super().train_batch(batch, epoch_idx, batch_idx))

        trial = fit(
            Watching,
            seed=torch_seed,
            options=options,
            max_length=pytorch.Epoch(2),
            validation_period=pytorch.Epoch(1),
            checkpoint_period=pytorch.Epoch(1),
        )
        assert all(torch.equal(state[0], states[0][0]) for state in states)
        assert all(np.array_equal(state[1], states[0][1]) for state in states)
        assert all(state[2] == states[0][2] for state in states)
        return cast(list[Any], trial.seen)

    base = order(1, workers)
    assert sorted(r for batch in base[:5] for r in batch) == list(range(20))
    assert sorted(r for batch in base[5:] for r in batch) == list(range(20))
    assert base[:5] != base[5:], "passes differ"
    if workers == 0:
        assert order(1, workers) == base
        assert order(2, workers) != base
        assert order(2, workers, seed=7) == order(3, workers, seed=7) != order(3, workers, seed=8)
    else:
        assert order(1, 0) == base


def test_the_old_global_order_is_that_of_torchs_own_loader() -> None:
    class Old(order_trial(lambda: pytorch.DataLoader(Numbers(20), batch_size=4, shuffle=True))):  # type: ignore[misc]
        def make_model(self) -> torch.nn.Module:
            return torch.nn.Identity()

        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.experimental.use_global_shuffle()
            torch.manual_seed(11)

    trial = fit(
        type("Old", (Old,), {"make_model": lambda self: torch.nn.Linear(1, 1)}),
        max_length=pytorch.Epoch(1),
    )
    torch.manual_seed(11)
    assert trial.seen == lists(torch.utils.data.DataLoader(Numbers(20), batch_size=4, shuffle=True))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_empty_training_set_is_an_error_before_anything(workers: int, shuffle: bool) -> None:
    def loader() -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(0), batch_size=2, shuffle=shuffle, num_workers=workers)

    with pytest.raises(InvalidExperimentException, match=r"build_training_data_loader.*empty"):
        fit(order_trial(loader), max_length=pytorch.Batch(2))


def test_drop_last_with_too_few_records_is_an_error() -> None:
    with pytest.raises(InvalidExperimentException, match="drop_last"):
        fit(
            order_trial(lambda: pytorch.DataLoader(Numbers(3), batch_size=4, drop_last=True)),
            max_length=pytorch.Batch(2),
        )


class NoBatches:
    def __iter__(self) -> Iterator[list[int]]:
        return iter(())


@pytest.mark.parametrize("workers", [0, 2])
def test_an_empty_batch_sampler_without_length_is_an_error_and_no_hang(workers: int) -> None:
    with pytest.raises(ValueError, match="empty"):
        fit(
            order_trial(lambda: pytorch.DataLoader(Numbers(3), batch_sampler=NoBatches(), num_workers=workers)),
            max_length=pytorch.Batch(2),
        )


class LoaderWithoutLength:
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter([torch.tensor([0]), torch.tensor([1])])


class LoaderThatWillNotTell(LoaderWithoutLength):
    def __len__(self) -> int:
        raise NotImplementedError


FOREIGN: dict[str, tuple[Callable[[], Any], list[Any], int]] = {
    # How to create it, what five batches of it are, and the epoch of the last of them.
    "torch": (lambda: torch.utils.data.DataLoader(Numbers(3), batch_size=2), [[0, 1], [2]] * 2 + [[0, 1]], 2),
    "stateful": (lambda: StatefulDataLoader(Numbers(3), batch_size=2), [[0, 1], [2]] * 2 + [[0, 1]], 2),
    "list": (lambda: [torch.tensor([7]), torch.tensor([8])], [[7], [8], [7], [8], [7]], 2),
    "tuple of arrays": (lambda: (np.array([7]),), [[7]] * 5, 4),
    "stream": (lambda: torch.utils.data.DataLoader(Stream(4), batch_size=2), [[0, 1], [2, 3]] * 2 + [[0, 1]], 0),
    "generator": (lambda: (torch.tensor([i]) for i in range(5)), [[i] for i in range(5)], 0),
    "without length": (LoaderWithoutLength, [[0], [1], [0], [1], [0]], 0),
    "that will not tell": (LoaderThatWillNotTell, [[0], [1], [0], [1], [0]], 0),
}


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata's own
@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_loaders_are_used_as_they_are_and_begun_again(kind: str) -> None:
    make, expected, last_epoch = FOREIGN[kind]
    validation = LoaderWithoutLength if kind == "generator" else make
    trial = fit(order_trial(make, validation, any_loader=True), max_length=pytorch.Batch(5))
    assert trial.seen == expected
    assert trial.epoch_indices[-1] == last_epoch
    assert len(trial.validated) == (1 if kind == "tuple of arrays" else 2)


def test_foreign_loader_with_workers_is_begun_again() -> None:
    trial = fit(
        order_trial(lambda: torch.utils.data.DataLoader(Stream(3), batch_size=2, num_workers=1), any_loader=True),
        max_length=pytorch.Batch(3),
    )
    assert trial.seen == [[0, 1], [2], [0, 1]]
    assert multiprocessing.active_children() == []


def test_a_one_shot_iterator_that_is_too_short_says_so() -> None:
    with pytest.raises(InvalidExperimentException, match="only once"):
        fit(
            order_trial(lambda: (torch.tensor([i]) for i in range(3)), any_loader=True),
            max_length=pytorch.Batch(4),
        )


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda: iter(()),
        lambda: torch.utils.data.DataLoader(Stream(0), batch_size=2),
        lambda: torch.utils.data.DataLoader(Stream(0), batch_size=2, num_workers=2),
    ],
    ids=["list", "iterator", "stream", "stream with workers"],
)
def test_an_empty_foreign_loader_is_an_error(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidExperimentException, match="build_training_data_loader"):
        fit(order_trial(make, any_loader=True), max_length=pytorch.Batch(4))


def test_epochs_of_a_loader_without_length_are_refused() -> None:
    with pytest.raises(InvalidExperimentException, match="length"):
        fit(order_trial(LoaderWithoutLength, any_loader=True), max_length=pytorch.Epoch(1))


def test_foreign_loaders_need_the_opt_out() -> None:
    def torch_loader() -> Any:
        return torch.utils.data.DataLoader(Numbers(3))

    words = r"{}.*determined\.pytorch\.DataLoader.*disable_dataset_reproducibility_checks"
    with pytest.raises(RuntimeError, match=words.format("build_training_data_loader")):
        fit(order_trial(torch_loader), max_length=pytorch.Batch(1))
    with pytest.raises(RuntimeError, match=words.format("build_validation_data_loader")):
        fit(order_trial(lambda: pytorch.DataLoader(Numbers(3)), torch_loader), max_length=pytorch.Batch(1))


@pytest.mark.parametrize("loader", [None, 3])
def test_what_cannot_be_iterated_is_refused_by_name(loader: Any) -> None:
    with pytest.raises(TypeError, match="build_training_data_loader"):
        fit(order_trial(lambda: loader, any_loader=True), max_length=pytorch.Batch(1))


def test_no_worker_outlives_fit_and_persistent_ones_serve_every_validation() -> None:
    pids: list[Any] = []

    def loader() -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(4), batch_size=2, num_workers=1, persistent_workers=True)

    class Watching(order_trial(loader, loader)):  # type: ignore[misc]
        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            pids.append({child.pid for child in multiprocessing.active_children()})
            return {}

    fit(Watching, max_length=pytorch.Batch(4), validation_period=pytorch.Batch(2))
    assert len(pids) == 4
    assert all(len(found) == 2 for found in pids)
    assert pids[0] == pids[-1], "one pair of workers for training and all validations"
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("method", ["train_batch", "evaluate_batch"])
@pytest.mark.parametrize("own", [True, False])
def test_no_worker_outlives_an_exception_even_if_that_is_kept(method: str, own: bool) -> None:
    def loader() -> Any:
        kind: Any = pytorch.DataLoader if own else torch.utils.data.DataLoader
        return kind(Numbers(8), batch_size=2, num_workers=1, persistent_workers=own)

    def fail(self: Any, batch: Any, **indices: int) -> Any:
        assert multiprocessing.active_children()
        raise LookupError("of the user's own")

    trial_class = order_trial(loader, loader, any_loader=True)
    setattr(trial_class, method, fail)
    with pytest.raises(LookupError) as kept:
        fit(trial_class, max_length=pytorch.Batch(1))
    assert multiprocessing.active_children() == []
    assert kept.value.args == ("of the user's own",)


def test_a_foreign_loader_with_persistent_workers_serves_again() -> None:
    loader = torch.utils.data.DataLoader(Numbers(4), batch_size=2, num_workers=1, persistent_workers=True)
    for _ in range(2):
        trial = fit(order_trial(lambda: loader, lambda: loader, any_loader=True), max_length=pytorch.Batch(3))
        assert trial.seen == [[0, 1], [2, 3], [0, 1]]
        assert trial.validated == [[0, 1], [2, 3]]
    cast(Any, loader)._iterator._shutdown_workers()  # they are the user's, and no run ends them


@pytest.mark.parametrize("by", ["seed", "generator", "sampler"])
def test_a_resumed_shuffled_run_continues_the_stream(by: str, data_home: Any) -> None:
    from tests.helpers.trials import checkpoints

    def loader() -> pytorch.DataLoader:
        if by == "sampler":
            sampler = pytorch.samplers.ReproducibleShuffleSampler(range(11), 5)
            return pytorch.DataLoader(Numbers(11), batch_size=2, sampler=sampler)
        generator = torch.Generator().manual_seed(5) if by == "generator" else None
        return pytorch.DataLoader(Numbers(11), batch_size=2, shuffle=True, generator=generator)

    trial_class = order_trial(loader)
    whole = fit(trial_class, options={"seed": 3}, max_length=pytorch.Batch(14))
    part = fit(trial_class, options={"seed": 3}, max_length=pytorch.Batch(8))
    rest = fit(
        trial_class,
        options={"seed": 3},
        max_length=pytorch.Batch(14),
        latest_checkpoint=str(checkpoints(data_home)[-1]),
    )
    assert len(rest.seen) == 6
    assert part.seen + rest.seen == whole.seen


# On two ranks


def shuffled_on_ranks(workers: int) -> dict[str, Any]:
    def loader() -> pytorch.DataLoader:
        return pytorch.DataLoader(
            TensorDataset(torch.arange(22)), batch_size=2, shuffle=True, num_workers=workers, collate_fn=_first
        )

    trial_class = order_trial(loader, loader)
    trial = fit(trial_class, seed=_rank_seed(), max_length=pytorch.Epoch(1))

    # The same again by the seed of the chief, interrupted after four batches.
    uuids: list[str] = []

    class Noting(pytorch.PyTorchCallback):
        def on_checkpoint_upload_end(self, uuid: str) -> None:
            uuids.append(uuid)

    trial_class.callbacks = {"noting": Noting()}
    seed = trial.context.get_trial_seed()
    part = fit(trial_class, options={"seed": seed}, max_length=pytorch.Batch(4))
    rest = fit(trial_class, options={"seed": seed}, max_length=pytorch.Epoch(1), latest_checkpoint=uuids[0])
    return {"train": trial.seen, "validation": trial.validated, "resumed": part.seen + rest.seen}


def _first(records: list[Any]) -> torch.Tensor:
    return torch.stack([record[0] for record in records])


def _rank_seed() -> int:
    """Set another state of torch's generator on every rank: the order must not depend on it."""
    import os

    return int(os.environ["RANK"])


def test_shuffled_shards_of_two_ranks_are_disjoint_and_complete(data_home: Any) -> None:
    values = [result.value for result in run_ranks(shuffled_on_ranks, args=[0])]
    # 11 batches on two ranks: an epoch is 6 batches of each, the 12th is the first of the next pass.
    assert [len(value["train"]) for value in values] == [6, 6]
    assert [len(value["validation"]) for value in values] == [6, 5]
    validated = [r for value in values for batch in value["validation"] for r in batch]
    assert sorted(validated) == list(range(22))
    dealt = [batch for pair in zip(*(value["train"] for value in values), strict=True) for batch in pair]
    assert sorted(r for batch in dealt[:11] for r in batch) == list(range(22))
    assert metrics(data_home, "validation")[0]["sum"] == pytest.approx(sum(range(22)) / 11)
    assert [value["resumed"] for value in values] == [value["train"] for value in values]


def test_batch_sampler_class_is_kept_for_torch_code_that_looks_at_it() -> None:
    loader = pytorch.DataLoader(Numbers(5), batch_size=2, drop_last=True)
    assert type(loader.batch_sampler) is BatchSampler
    assert len(loader) == len(loader.get_data_loader()) == 2


@pytest.mark.parametrize(
    "records",
    [
        [(torch.tensor(i), torch.full((2,), float(i))) for i in range(3)],
        [(torch.tensor(0.1 * i, dtype=torch.bfloat16), torch.tensor(i % 2 == 0)) for i in range(3)],
        [(torch.tensor(2**62 + i), torch.tensor(float("nan"))) for i in range(3)],
        [(torch.tensor(1), 2.5, "text"), (torch.tensor(1.5), 3.5, "more")],
        [(torch.tensor(1.0, requires_grad=True), {"a": torch.ones(1)})] * 2,
    ],
)
def test_batches_are_what_torch_makes_of_the_same_records(records: Any) -> None:
    ours = next(iter(pytorch.DataLoader(records, batch_size=len(records))))
    theirs = torch.utils.data.default_collate(records)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, torch.Tensor):
            assert one.dtype is other.dtype
            assert one.shape == other.shape
            assert one.requires_grad == other.requires_grad
            assert torch.equal(one.nan_to_num(), other.nan_to_num())
        else:
            assert type(one) is type(other)


def test_labels_of_unequal_shape_are_refused_with_torchs_message() -> None:
    records = [(torch.tensor(1),), (torch.tensor([1, 2]),)]
    with pytest.raises(RuntimeError, match="equal size"):
        next(iter(pytorch.DataLoader(records, batch_size=2)))
