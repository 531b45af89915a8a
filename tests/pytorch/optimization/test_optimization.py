"""Backward, aggregation, clipping, stepping, precision: the numbers of a plain PyTorch loop, bit for bit."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest
import torch
from torch.nn.functional import mse_loss

from determined import pytorch
from determined.pytorch.optimization.precision import to_float32
from tests.helpers.trials import LineTrial, fit, line

MODES = pytorch.LRScheduler.StepMode


def small_model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(1, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
    )


def batches_of(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    data = line()
    pairs = [data[start : start + 2] for start in range(0, len(data), 2)]
    return [pairs[number % len(pairs)] for number in range(count)]


class Plain(LineTrial):
    """Adam, batch norm and dropout, so that every generator and every order matters."""

    clip: Callable[[list[torch.nn.Parameter]], Any] | None = None
    wrap: dict[str, Any] = {}

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(small_model())
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=0.01), **self.wrap)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        loss = mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer, clip_grads=type(self).clip)
        return {"loss": loss}


def by_hand(
    count: int, aggregation: int = 1, average: bool = True, clip: Callable[[list[Any]], Any] | None = None
) -> torch.nn.Module:
    """Do the same training in plain PyTorch."""
    torch.manual_seed(0)
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number, (x, y) in enumerate(batches_of(count)):
        mse_loss(model(x), y).backward()
        if (number + 1) % aggregation:
            continue
        if aggregation > 1 and average:
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad /= aggregation
        if clip is not None:
            clip(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
    return model


def assert_equal(one: torch.nn.Module, other: torch.nn.Module) -> None:
    for (name, value), (_, expected) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
        assert torch.equal(value, expected), name


def differ(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def norm(parameters: list[Any]) -> Any:
    return torch.nn.utils.clip_grad_norm_(parameters, 0.05)


def variant(base: type[LineTrial] = Plain, **attributes: Any) -> type[Any]:
    return type(base.__name__, (base,), attributes)


class TestAgainstAHandWrittenLoop:
    def test_plain(self) -> None:
        trial = fit(Plain, max_length=pytorch.Batch(13))
        assert_equal(trial.model, by_hand(13))
        assert differ(trial.model, by_hand(12))

    @pytest.mark.parametrize("aggregation", [2, 4])
    @pytest.mark.parametrize("average", [True, False])
    def test_aggregation(self, aggregation: int, average: bool) -> None:
        trial = fit(
            variant(wrap={"average_aggregated_gradients": average}),
            max_length=pytorch.Batch(13),
            options={"aggregation_frequency": aggregation},
        )
        assert_equal(trial.model, by_hand(13, aggregation, average))

    def test_gradients_are_averaged_by_default(self) -> None:
        trial = fit(Plain, max_length=pytorch.Batch(8), options={"aggregation_frequency": 2})
        assert_equal(trial.model, by_hand(8, 2, average=True))
        assert differ(trial.model, by_hand(8, 2, average=False))

    @pytest.mark.parametrize("aggregation", [1, 2])
    def test_clipping_comes_after_averaging(self, aggregation: int) -> None:
        options = {"aggregation_frequency": aggregation}
        trial = fit(variant(clip=staticmethod(norm)), max_length=pytorch.Batch(8), options=options)
        assert_equal(trial.model, by_hand(8, aggregation, clip=norm))
        assert differ(trial.model, by_hand(8, aggregation))

    def test_clip_grads_gets_the_list_of_all_parameters(self) -> None:
        seen: list[Any] = []

        def remember(parameters: list[Any]) -> None:
            seen.append(parameters)

        trial = fit(variant(clip=staticmethod(remember)), max_length=pytorch.Batch(2))
        assert [type(parameters) for parameters in seen] == [list, list]
        assert [id(p) for p in seen[0]] == [id(p) for p in trial.model.parameters()]


class TestGradients:
    @pytest.mark.parametrize("zero", [True, False])
    def test_auto_zero_grads(self, zero: bool) -> None:
        class Looking(Plain):
            grads: list[Any] = []

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                self.context.backward(mse_loss(self.model(batch[0]), batch[1]))
                self.context.step_optimizer(self.optimizer, auto_zero_grads=zero)
                self.grads.append([p.grad for p in self.model.parameters()])
                return {}

        trial = fit(variant(Looking, grads=[]), max_length=pytorch.Batch(1))
        assert all((grad is None) == zero for grad in trial.grads[0])

    @pytest.mark.parametrize("patched", [False, True], ids=["a class of its own", "patched on the object"])
    def test_an_optimizer_with_its_own_zero_grad_is_asked(self, patched: bool) -> None:
        asked = []

        class Own(torch.optim.Adam):
            def zero_grad(self, set_to_none: bool = True) -> None:
                asked.append(set_to_none)
                super().zero_grad(set_to_none)

        class Asking(Plain):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                if patched:
                    own = self.optimizer.zero_grad

                    def noted() -> None:
                        asked.append(True)
                        own()

                    vars(self.optimizer)["zero_grad"] = noted
                else:
                    self.optimizer = context.wrap_optimizer(Own(self.model.parameters(), lr=0.01))

        fit(Asking, max_length=pytorch.Batch(3))
        assert asked == [True] * 3

    def test_nothing_happens_on_batches_that_do_not_update(self) -> None:
        class Looking(Plain):
            stepped: list[Any] = []

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                layer = cast(torch.nn.Linear, cast(torch.nn.Sequential, self.model)[0])
                before = layer.weight.detach().clone()
                super().train_batch(batch, epoch_idx, batch_idx)
                self.stepped.append(not torch.equal(before, layer.weight))
                return {}

        trial = fit(variant(Looking, stepped=[]), max_length=pytorch.Batch(7), options={"aggregation_frequency": 3})
        assert trial.stepped == [False, False, True, False, False, True, False]

    def test_retain_graph(self) -> None:
        class Twice(Plain):
            keep = True

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                loss = mse_loss(self.model(batch[0]), batch[1])
                self.context.backward(loss, retain_graph=self.keep)
                self.context.backward(loss)
                return {}

        fit(Twice, max_length=pytorch.Batch(1))
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            fit(variant(Twice, keep=False), max_length=pytorch.Batch(1))

    def test_create_graph_keeps_the_graph(self) -> None:
        class Second(LineTrial):
            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                loss = mse_loss(self.model(batch[0]), batch[1])
                (gradient,) = torch.autograd.grad(loss, self.weight, create_graph=True)
                self.context.backward(gradient.pow(2).sum(), create_graph=True)
                assert self.weight.grad is not None
                assert self.weight.grad.requires_grad
                self.context.backward(loss)  # the graph still exists
                self.weight.grad = self.weight.grad.detach()
                self.context.step_optimizer(self.optimizer)
                return {}

        with pytest.warns(UserWarning, match="create_graph=True"):
            fit(Second, max_length=pytorch.Batch(1))

    def test_gradient_of_a_vector(self) -> None:
        class Vector(LineTrial):
            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                output = self.model(torch.tensor([[1.0], [10.0]]))
                self.context.backward(output, gradient=torch.tensor([[1.0], [2.0]]))
                assert self.weight.grad is not None
                self.grad = self.weight.grad.item()
                return {}

        assert fit(Vector, max_length=pytorch.Batch(1)).grad == 21

    def test_partial_gradients_survive_a_restart(self, data_home: Any) -> None:
        from tests.helpers.trials import checkpoints

        options = {"aggregation_frequency": 4}
        whole = fit(Plain, max_length=pytorch.Batch(13), options=options)
        fit(Plain, max_length=pytorch.Batch(6), options=options)
        uuid = checkpoints(data_home)[-1].name
        rest = fit(Plain, seed=1, max_length=pytorch.Batch(13), options=options, latest_checkpoint=uuid)
        assert_equal(rest.model, whole.model)


class Gan(LineTrial):
    """Two models, two optimizers, steps in a particular order."""

    order = "both at the end"

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.first = context.wrap_model(torch.nn.Linear(1, 1))
        self.second = context.wrap_model(torch.nn.Linear(1, 1))
        self.one = context.wrap_optimizer(torch.optim.SGD(self.first.parameters(), lr=0.1))
        self.two = context.wrap_optimizer(torch.optim.Adam(self.second.parameters(), lr=0.1))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        backward, step = self.context.backward, self.context.step_optimizer
        if self.order == "one after the other":
            backward(mse_loss(self.first(x), y))
            step(self.one)
            backward(mse_loss(self.second(self.first(x).detach()), y))
            step(self.two)
        else:
            made = self.first(x)
            backward(mse_loss(self.second(made.detach()), y))
            backward(mse_loss(made, y))
            step(self.two)
            step(self.one)
        return {"loss": 0.0}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"x": 0.0}


@pytest.mark.parametrize("order", ["both at the end", "one after the other"])
@pytest.mark.parametrize("aggregation", [1, 2])
def test_several_optimizers_in_any_order(order: str, aggregation: int) -> None:
    trial = fit(variant(Gan, order=order), max_length=pytorch.Batch(6), options={"aggregation_frequency": aggregation})
    torch.manual_seed(0)
    first, second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    one, two = torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.Adam(second.parameters(), lr=0.1)

    def step(optimizer: torch.optim.Optimizer, number: int) -> None:
        if (number + 1) % aggregation == 0:
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad /= aggregation
            optimizer.step()
            optimizer.zero_grad()

    for number, (x, y) in enumerate(batches_of(6)):
        if order == "one after the other":
            mse_loss(first(x), y).backward()
            step(one, number)
            mse_loss(second(first(x).detach()), y).backward()
            step(two, number)
        else:
            made = first(x)
            mse_loss(second(made.detach()), y).backward()
            mse_loss(made, y).backward()
            step(one, number)
            step(two, number)
    assert_equal(trial.first, first)
    assert_equal(trial.second, second)


class TestPrecision:
    def test_a_scaler_stepped_by_the_program(self, data_home: Any) -> None:
        class Scaled(Plain):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                self.scaler = context.wrap_scaler(torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3))
                super().__init__(context)

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                loss = mse_loss(self.model(batch[0]), batch[1])
                if batch_idx == 1:
                    loss = loss * float("inf")
                self.context.backward(self.scaler.scale(loss))
                self.scaler.unscale_(self.optimizer)
                self.context.step_optimizer(self.optimizer, clip_grads=norm, scaler=self.scaler)
                self.scaler.update()
                return {}

        trial = fit(Scaled, max_length=pytorch.Batch(8))

        torch.manual_seed(0)
        model = small_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3)
        for number, (x, y) in enumerate(batches_of(8)):
            loss = mse_loss(model(x), y)
            scaler.scale(loss * float("inf") if number == 1 else loss).backward()
            scaler.unscale_(optimizer)
            norm(list(model.parameters()))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert_equal(trial.model, model)
        assert trial.scaler.state_dict() == scaler.state_dict()
        assert trial.scaler.get_scale() != 16.0

        from tests.helpers.trials import checkpoints

        uuid = checkpoints(data_home)[-1].name
        again = fit(Scaled, max_length=pytorch.Batch(8), latest_checkpoint=uuid)
        assert again.scaler.state_dict() == scaler.state_dict()

    def test_use_amp(self) -> None:
        class Auto(LineTrial):
            inside: set[torch.dtype] = set()
            outside: set[torch.dtype] = set()
            amp = True

            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                if self.amp:
                    context.experimental.use_amp()
                super().__init__(context)

            def make_model(self) -> torch.nn.Module:
                model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Linear(8, 1))
                model[0].register_forward_hook(lambda module, args, output: self.inside.add(output.dtype))
                return model

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                output = self.model(batch[0])
                self.outside.add(output.dtype)
                loss = mse_loss(output, batch[1])
                self.context.backward(loss)
                self.context.step_optimizer(self.optimizer, clip_grads=norm)
                return {"loss": loss}

        arguments: dict[str, Any] = {"max_length": pytorch.Batch(12), "options": {"aggregation_frequency": 2}}
        trial = fit(variant(Auto, inside=set(), outside=set()), **arguments)
        assert trial.inside == {torch.bfloat16}
        assert trial.outside == {torch.float32}
        full = fit(variant(Auto, amp=False), **arguments)
        start = fit(Auto, max_length=pytorch.Batch(0))
        # Six steps of 0.1 with gradients clipped to 0.05: a skipped one would be visible.
        for value, expected, before in zip(
            trial.model.parameters(), full.model.parameters(), start.model.parameters(), strict=True
        ):
            torch.testing.assert_close(value, expected, atol=0.001, rtol=0.01)
            assert not torch.equal(value, before)

    def test_auto_amp_in_batches_without_a_step(self) -> None:
        class Seldom(Plain):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                context.experimental.use_amp(torch.float16)
                super().__init__(context)

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                return super().train_batch(batch, epoch_idx, batch_idx) if batch_idx % 2 else {"loss": 0.0}

        fit(Seldom, max_length=pytorch.Batch(4))

    def test_the_autocast_model_stays_what_it_is(self) -> None:
        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(2, 2)
                self.note = "inside"

            def forward(self, x: torch.Tensor) -> Any:
                return {"a": [self.layer(x)], "b": (self.layer(x),)}

        with pytorch.init() as context:
            context.experimental.use_amp()
            net = Net()
            model = context.wrap_model(net)
            assert isinstance(model, Net)
            assert type(model) is not Net
            assert model.note == "inside"
            model.note = "changed"
            assert net.note == "changed"
            del model.note
            assert not hasattr(net, "note")
            assert list(model.state_dict()) == ["layer.weight", "layer.bias"]
            result = model(torch.ones(1, 2))
            assert result["a"][0].dtype is result["b"][0].dtype is torch.float32

    @pytest.mark.parametrize("way", ["use_amp", "configure_apex_amp", "compile", "autocast_forward_pass", "twice"])
    def test_the_signature_of_forward_stays(self, way: str) -> None:
        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(2, 2)

            def forward(self, input_ids: torch.Tensor, *, labels: Any = None) -> Any:
                """Say what it is for."""
                return self.layer(input_ids)

        before = inspect.signature(Net().forward)
        with pytorch.init() as context:
            if way in ("use_amp", "twice"):
                context.experimental.use_amp()
            model = context.wrap_model(Net(), compile={"backend": "eager"} if way == "compile" else False)
            if way == "configure_apex_amp":
                context.configure_apex_amp(model, context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.1)))
            if way in ("autocast_forward_pass", "twice"):
                context.autocast_forward_pass(model)
            assert inspect.signature(model.forward) == before
            assert "input_ids" in inspect.getfullargspec(model.forward).args
            assert model.forward.__doc__ == "Say what it is for."
            assert copy.deepcopy(model)(input_ids=torch.ones(1, 2), labels=3).dtype is torch.float32

    def test_half_precision_results_of_any_shape(self, caplog: pytest.LogCaptureFixture) -> None:
        import dataclasses

        class Pair(NamedTuple):
            x: torch.Tensor
            y: Any

        @dataclasses.dataclass
        class Output:
            loss: torch.Tensor

        half = torch.ones(1, dtype=torch.bfloat16)
        pair = to_float32(Pair(half, [half.half()]))
        assert isinstance(pair, Pair)
        assert pair.x.dtype is pair.y[0].dtype is torch.float32
        assert to_float32(Output(half)).loss.dtype is torch.float32
        assert to_float32({"x": (half, 3, "text", None)})["x"][0].dtype is torch.float32
        assert to_float32(torch.ones(1, dtype=torch.int64)).dtype is torch.int64
        assert caplog.text == ""

        class Odd: ...

        odd = Odd()
        assert to_float32(odd) is odd
        to_float32(Odd())
        assert caplog.text.count("Odd") == 1

    @pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
    def test_apex_levels(self, level: str, caplog: pytest.LogCaptureFixture) -> None:
        class Apex(Plain):
            inside: set[torch.dtype] = set()

            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                model, optimizer = context.configure_apex_amp(
                    self.model,
                    self.optimizer,
                    opt_level=level,
                    loss_scale=128.0,
                    min_loss_scale=1.0,
                    keep_batchnorm_fp32=True,
                )
                assert (model, optimizer) == (self.model, self.optimizer)
                layer = cast(torch.nn.Sequential, self.model)[0]
                layer.register_forward_hook(lambda module, args, output: self.inside.add(output.dtype))

        trial = fit(variant(Apex, inside=set()), max_length=pytorch.Batch(4))
        if level == "O0":
            assert trial.inside == {torch.float32}
            assert_equal(trial.model, by_hand(4))
        else:
            assert trial.inside == {torch.bfloat16}
            assert len([r for r in caplog.records if "apex" in r.getMessage()]) == 1


@pytest.mark.parametrize("aggregation", [1, 2])
def test_schedulers_are_stepped_after_the_optimizer(aggregation: int) -> None:
    class Scheduled(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            self.rates: list[float] = []
            scheduler = torch.optim.lr_scheduler.StepLR
            context.wrap_lr_scheduler(scheduler(self.optimizer, 1, 0.5), MODES.STEP_EVERY_OPTIMIZER_STEP)
            self.manual = context.wrap_lr_scheduler(scheduler(self.optimizer, 1, 10.0), MODES.MANUAL_STEP)

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.rates.append(self.optimizer.param_groups[0]["lr"])
            return super().train_batch(batch, epoch_idx, batch_idx)

    trial = fit(Scheduled, max_length=pytorch.Batch(5), options={"aggregation_frequency": aggregation})
    assert trial.rates == pytest.approx([0.1 * 0.5 ** (number // aggregation) for number in range(5)])


def test_a_compiled_model_is_the_same_object_with_the_same_numbers() -> None:
    class Compiled(Plain):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            self.context = context
            model = small_model()
            self.model = context.wrap_model(model, compile={"backend": "eager"})
            assert self.model is model
            assert list(model.state_dict()) == list(small_model().state_dict())
            self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=0.01))

    trial = fit(Compiled, max_length=pytorch.Batch(3))
    assert trial.model._compiled_call_impl is not None
