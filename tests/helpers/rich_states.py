"""States that hold every kind of value a checkpoint can hold, in every place where a program can put one.

Run as a program it trains to batch TOTAL from the latest checkpoint, writing what each place held when a checkpoint was
saved and what it was given when it resumed.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch.optim import lr_scheduler

from determined import pytorch
from tests.helpers.trials import HPARAMS, LineTrial

Entry = collections.namedtuple("Entry", "score note")


class Mode(enum.Enum):
    WARM = "warm"
    COLD = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class AttrDict(dict[str, Any]):
    """A dict whose items are attributes as well."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Tagged(list[Any]):
    """A list with an attribute."""

    note = ""


class Meters(collections.OrderedDict[str, Any]):
    pass


class Slotted:
    __slots__ = ("__hidden", "unset", "x")

    def __init__(self, x: Any) -> None:
        self.x = x
        self.__hidden = [x]


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: Any


class Guarded:
    """A dict that can only be filled through the methods of `dict`."""

    made = 0

    def __init__(self, **attributes: Any) -> None:
        Guarded.made += 1
        vars(self).update(attributes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError("__setattr__ was called")

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("__setstate__ was called")

    def __reduce__(self) -> Any:
        raise AssertionError("__reduce__ was called")


class Tracker:
    """An object with `state_dict` and `load_state_dict`."""

    def __init__(self) -> None:
        self.seen = 0
        self.log = lambda: None  # not in its state

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "by": np.int16(self.seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]
        assert type(state["by"]) is np.int16


SafeGlobal = Callable[..., Any] | tuple[Callable[..., Any], str]  # as torch.serialization.safe_globals takes it
CLASSES: list[SafeGlobal] = [Entry, Mode, Rights, AttrDict, Tagged, Meters, Slotted, Frozen, Guarded, Tracker]
CLASSES += [lr_scheduler.StepLR, torch.optim.SGD]


def scheduler(n: int) -> Any:
    """Return a scheduler that is not wrapped, as warm-up schedulers contain one."""
    inner = lr_scheduler.StepLR(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5), 3)
    inner.last_epoch = n
    return inner


def kinds(n: int) -> dict[str, Any]:
    """Return one value of each kind, different ones for each `n`."""
    shared = [n]
    tagged = Tagged([n, shared])
    tagged.note = f"note {n}"
    cycle: list[Any] = [n]
    cycle.append((cycle,))
    guarded = Guarded(n=n, shared=shared, array=np.arange(n + 1))
    vars(guarded)["me"] = guarded
    tracker = Tracker()
    tracker.seen = n
    grouped: Any = collections.defaultdict(list, {"a": [n]})
    structured = np.zeros(2, dtype=[("x", "<i4"), ("name", "U3")])
    structured["x"] = n
    return {
        "array": np.arange(6, dtype=np.float64).reshape(2, 3) + n,
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3) + n),
        "big endian": np.array([n, 2], dtype=">i2"),
        "structured": structured,
        "objects": np.array([n, "x", None, Entry(n, 2)], dtype=object),
        "empty": np.zeros((0, 3), dtype=np.complex64),
        "dates": np.array(["2020-01-01", "2021-02-03"], dtype="M8[D]"),
        "scalar": np.float32(n + 0.1),
        "scalar time": np.datetime64("2024-05-06") + n,
        "deque": collections.deque([n, Entry(n, "x")], maxlen=4),
        "named tuple": Entry(n, [n]),
        "enum": [Mode.WARM, Mode.COLD][n % 2],
        "flags": Rights.READ | Rights.WRITE if n % 2 else Rights.READ,
        "path": pathlib.Path("/some/where") / str(n),
        "datetime": datetime.datetime(2024, 1, 2, 3, 4, 5, n, datetime.UTC),
        "zoned": datetime.datetime(2024, 1, 2, 3, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
        "date": datetime.date(2024, 1, n % 28 + 1),
        "time": datetime.time(1, 2, n % 60, fold=1),
        "timedelta": datetime.timedelta(n, 1, 2),
        "set": {Mode.WARM, n},
        "frozenset": frozenset({n, ("a", n), Mode.COLD}),
        "plain set": {1, n},
        "complex": complex(n, -0.0),
        "bytes": bytes([n % 256, 255]),
        "bytearray": bytearray([n % 256]),
        "range": range(n, 10**12, 2),
        "slice": slice(n, None, Entry(1, n)),
        "ordered": collections.OrderedDict([(Mode.COLD, n), ("b", 1)]),
        "defaultdict": grouped,
        "counter": collections.Counter("a" * n + "b"),
        "counter of enums": collections.Counter({Mode.WARM: n}),
        "attributes": AttrDict(n=n, inner=AttrDict(lr=0.1)),
        "list subclass": tagged,
        "dict subclass": Meters(loss=n, acc=(n,)),
        "slots": Slotted(n),
        "frozen": Frozen(n, Entry(n, None)),
        "object": guarded,
        "shared": shared,
        "cycle": cycle,
        "nested scheduler": scheduler(n),
        "with a state": tracker,
        "function": max,
        "functions": [kinds, None, n],
        "long": 3 ** (2000 + n),
        "decimal": decimal.Decimal(f"{n}.10"),
        "fraction": fractions.Fraction(n, 7),
        "uuid": uuid.UUID(int=n),
        "class": [Entry, Slotted][0],
        "built-in class": int,
        "dtype": np.dtype("float16"),
        "namespace-like": {"determined/kind": "mine", 3: n, None: 1, (1, "x"): 2},
        "tensor": torch.arange(3.0) + n,
        "sparse tensor": torch.tensor([0.0, n + 1.0]).to_sparse(),
        "dict": {"nan": float("nan"), "list": [n, {"deep": (n,)}]},
    }


def described(value: Any, seen: dict[int, int] | None = None) -> Any:
    """Return the value as text, including types and sharing, to compare it bit for bit with another one."""
    seen = {} if seen is None else seen
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), enum.Enum, type)) and kind in _LEAVES:
        return f"{name} {value.hex() if isinstance(value, float) else value!r}"
    if isinstance(value, (enum.Enum, type, types.FunctionType, types.BuiltinFunctionType)):
        return f"{name} {value!r}".split(" at 0x")[0]
    if id(value) in seen and not isinstance(value, (tuple, frozenset, np.generic, datetime.tzinfo)):
        return f"again {seen[id(value)]}"
    seen.setdefault(id(value), len(seen))
    if isinstance(value, torch.Tensor):
        return [name, str(value.dtype), str(value.layout), value.to_dense().tolist()]
    if isinstance(value, (np.ndarray, np.generic)):
        content = described(value.tolist(), seen) if value.dtype == object else np.asarray(value).tobytes().hex()
        order = value.flags.f_contiguous
        return [name, str(value.dtype), list(value.shape), order, content]
    if isinstance(value, lr_scheduler.LRScheduler):
        return [name, value.last_epoch, described(value.base_lrs, {})]
    if isinstance(value, torch.optim.Optimizer):
        return name
    parts: list[Any] = [name]
    if isinstance(value, dict):
        parts += [[described(key, seen), described(item, seen)] for key, item in value.items()]
    elif isinstance(value, (set, frozenset)):
        parts += sorted(str(described(item, seen)) for item in value)
    elif isinstance(value, (list, tuple, collections.deque)):
        parts += [described(item, seen) for item in value]
    if isinstance(value, collections.deque):
        parts.append(value.maxlen)
    if isinstance(value, collections.defaultdict):
        parts.append(described(value.default_factory, seen))
    if isinstance(value, Slotted):
        parts += [described(value.x), described(value._Slotted__hidden), hasattr(value, "unset")]  # type: ignore[attr-defined]
    elif isinstance(value, Tracker):
        parts.append(value.seen)
    elif isinstance(value, (Guarded, Frozen, Tagged)):
        parts += [[key, described(item, seen)] for key, item in sorted(vars(value).items())]
    elif len(parts) == 1:
        parts.append(repr(value))
    return parts


_LEAVES = {bool, int, float, complex, str, bytes, type(None)}


class RichScheduler(lr_scheduler.LRScheduler):
    """Holds the values in its attributes; its state contains all of them except the optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.rich = kinds(0)
        super().__init__(optimizer)

    def get_lr(self) -> list[float | torch.Tensor]:
        return list(self.base_lrs)

    def step(self, epoch: int | None = None) -> None:
        super().step(epoch)
        self.rich = kinds(self.last_epoch)


class RichOptimizer(torch.optim.SGD):
    """Holds the values in a parameter group and in the state of a parameter."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.1)
        self.put(0)

    def put(self, n: int) -> None:
        group = self.param_groups[0]
        group["rich"] = kinds(n)
        self.state[group["params"][0]]["rich"] = kinds(n)
        self.state[group["params"][0]]["text"] = f"text {n}"


class RichModel(torch.nn.Linear):
    """Holds the values in its extra state."""

    def __init__(self) -> None:
        super().__init__(1, 1, bias=False)
        self.rich = kinds(0)

    def get_extra_state(self) -> Any:
        return self.rich

    def set_extra_state(self, state: Any) -> None:
        self.rich = state


class RichCallback(pytorch.PyTorchCallback):
    """Holds the values, and references to the objects of the run."""

    def __init__(self, trial: Any) -> None:
        self.rich = kinds(0)
        self.owner = Guarded(trial=trial, model=trial.model, weight=trial.model.weight)

    def state_dict(self) -> dict[str, Any]:
        return {"rich": self.rich, "owner": self.owner, "trial": vars(self.owner)["trial"]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rich, self.owner = state["rich"], state["owner"]
        assert state["trial"] is vars(self.owner)["trial"]


class AddingCallback(pytorch.PyTorchCallback):
    """Adds the values to the checkpoint itself."""

    def __init__(self) -> None:
        self.n = 0
        self.rich: Any = None

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["rich"] = kinds(self.n)

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        self.rich = checkpoint["rich"]


PLACES = ["callback", "scheduler", "optimizer", "model", "hook"]


class RichTrial(LineTrial):
    """Holds every kind of value in the places named in the hyperparameter `places`."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.places = context.get_hparams().get("places", PLACES)
        if "optimizer" in self.places:
            context.optimizers.clear()
            self.optimizer = context.wrap_optimizer(RichOptimizer(self.model.parameters()))
        self.scheduler: Any = None
        if "scheduler" in self.places:
            self.scheduler = context.wrap_lr_scheduler(
                RichScheduler(self.optimizer), pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
            )
        self.callback = RichCallback(self)
        self.adding = AddingCallback()
        self.found: dict[str, Any] = {}

    def make_model(self) -> torch.nn.Module:
        if "model" in self.context.get_hparams().get("places", PLACES):
            return RichModel()
        return super().make_model()

    def build_callbacks(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {"watch": _Watch(self)}
        if "callback" in self.places:
            chosen["callback"] = self.callback
        if "hook" in self.places:
            chosen["adding"] = self.adding
        return chosen

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        result = super().train_batch(batch, epoch_idx, batch_idx)
        n = batch_idx + 1
        self.callback.rich = kinds(n)
        self.adding.n = n
        if "model" in self.places:
            self.model.rich = kinds(n)  # type: ignore[assignment]
        if "optimizer" in self.places:
            cast(RichOptimizer, self.optimizer).put(n)
        return result

    def held(self) -> dict[str, Any]:
        """Return what each place holds, as text."""
        held: dict[str, Any] = {}
        if "callback" in self.places:
            held["callback"] = described(self.callback.rich)
        if "scheduler" in self.places:
            held["scheduler"] = described(self.scheduler.rich)
        if "optimizer" in self.places:
            group = self.optimizer.param_groups[0]
            state = self.optimizer.state[group["params"][0]]
            held["optimizer"] = [described(group["rich"]), described(state["rich"]), state["text"]]
        if "model" in self.places:
            held["model"] = described(self.model.rich)
        if "hook" in self.places:
            held["hook"] = described(self.adding.rich)
        return held

    def expected(self, n: int) -> dict[str, Any]:
        """Return what each place must hold after `n` batches."""
        text = described(kinds(n))
        expected = {place: [text, text, f"text {n}"] if place == "optimizer" else text for place in self.places}
        if "hook" in expected:
            without = kinds(n)  # functions come from the program, and it has none in that place
            del without["function"]
            without["functions"] = [None, None, n]
            expected["hook"] = described(without)
        return expected


class _Watch(pytorch.PyTorchCallback):
    """Records what was restored."""

    def __init__(self, trial: RichTrial) -> None:
        self.trial = trial

    def on_training_start(self) -> None:
        if self.trial.context.get_initial_batch():
            self.trial.found = self.trial.held()


def main(total: int) -> None:
    torch.serialization.add_safe_globals(CLASSES)
    with pytorch.init(hparams=HPARAMS) as context:
        trial = RichTrial(context)
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Batch(total),
            checkpoint_period=pytorch.Batch(2),
            checkpoint_policy="none",
            latest_checkpoint="latest",
        )
        resumed = context.get_initial_batch()
        expected = trial.expected(resumed) if resumed else {}
        sys.stdout.write(json.dumps({"resumed": resumed, "same": trial.found == expected}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
