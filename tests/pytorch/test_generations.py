"""Programs of all generations run, and the first gives exactly the numbers of the later ones."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from determined import pytorch
from determined.errors import InternalException, InvalidExperimentException
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import HPARAMS, LineTrial, fit, line, metrics


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Dropout(0.25), torch.nn.Linear(4, 1))


class FirstGeneration(pytorch.PyTorchTrial):
    """A trial as written for 0.12: no constructor that wraps, the model as an argument."""

    callbacks: dict[str, Any] = {}

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.losses: list[float] = []
        self.models: list[Any] = []
        self.parameters: list[Any] = []

    def build_model(self) -> torch.nn.Module:
        return make_model()

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> pytorch.LRScheduler | None:
        return pytorch.LRScheduler(
            torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5), pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH
        )

    def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:  # type: ignore[override]
        self.models.append(model)
        x, y = batch
        loss = torch.nn.functional.mse_loss(model(x), y)
        self.losses.append(loss.item())
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, model: Any) -> dict[str, Any]:
        x, y = batch
        return {"val_loss": torch.nn.functional.mse_loss(model(x), y)}

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(line(), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(line(), batch_size=self.context.get_per_slot_batch_size())

    def build_callbacks(self) -> dict[str, Any]:
        return self.callbacks


class SecondGeneration(FirstGeneration):
    """The same, written for 0.12.13 and later. It still has the earlier helpers, under the old names."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.model = context.wrap_model(self.build_model())
        self.opt = context.wrap_optimizer(self.optimizer(self.model))
        context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1, 0.5), pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH
        )

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:  # type: ignore[override]
        metrics = super().train_batch(batch, self.model, epoch_idx, batch_idx)
        self.context.backward(metrics["loss"])
        self.context.step_optimizer(self.opt)
        return metrics

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return super().evaluate_batch(batch, self.model)


def weights(trial: Any) -> list[torch.Tensor]:
    (model,) = trial.context.models
    return [parameter.detach().clone() for parameter in model.parameters()]


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("aggregation", [1, 2])
def test_first_and_second_generation_give_the_same_numbers(aggregation: int, data_home: Path) -> None:
    options = {"aggregation_frequency": aggregation}
    first = fit(FirstGeneration, seed=7, max_length=pytorch.Batch(14), options=options)
    second = fit(SecondGeneration, seed=7, max_length=pytorch.Batch(14), options=options)
    assert len(first.losses) == 14
    assert first.losses == second.losses
    assert equal(weights(first), weights(second))
    one, other = metrics(data_home, "validation")
    assert one == other
    assert first.losses != fit(FirstGeneration, seed=8, max_length=pytorch.Batch(14)).losses


def both_generations() -> Any:
    results = []
    for trial_class in (FirstGeneration, SecondGeneration):
        trial = fit(trial_class, seed=7, max_length=pytorch.Batch(6), hparams={"global_batch_size": 4})
        results.append(
            {
                "losses": trial.losses,
                "weights": [parameter.tolist() for parameter in weights(trial)],
                "same model": all(model is trial.context.get_model() for model in trial.models),
                "kind": type(trial.context.get_model()).__name__,
            }
        )
    return results


def test_the_same_numbers_on_two_ranks() -> None:
    ranks = run_ranks(both_generations, n=2, timeout=120)
    for rank in ranks:
        first, second = rank.value
        assert first == second
        assert first["same model"]
        assert first["kind"] == "DistributedModel"
    assert ranks[0].value[0]["weights"] == ranks[1].value[0]["weights"]
    assert ranks[0].value[0]["losses"] != ranks[1].value[0]["losses"]


class TestDetection:
    def test_the_newer_form_is_recommended_once(self, caplog: pytest.LogCaptureFixture) -> None:
        fit(FirstGeneration, max_length=pytorch.Batch(2))
        assert len([record for record in caplog.records if "build_model" in record.getMessage()]) == 1
        caplog.clear()
        fit(SecondGeneration, max_length=pytorch.Batch(2))
        assert [record for record in caplog.records if "build_model" in record.getMessage()] == []

    def test_a_later_trial_with_an_attribute_called_optimizer(self) -> None:
        trial = fit(LineTrial, max_length=pytorch.Batch(2))
        assert isinstance(trial.optimizer, torch.optim.SGD)
        assert trial.batch_indices == [0, 1]

    def test_a_later_trial_with_callable_attributes_of_those_names(self) -> None:
        class Later(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                vars(self)["build_model"] = self.model  # a module can be called
                vars(self)["create_lr_scheduler"] = lambda: 1 / 0

        assert fit(Later, max_length=pytorch.Batch(2)).batch_indices == [0, 1]

    @pytest.mark.parametrize("name", ["build_model", "optimizer", "create_lr_scheduler"])
    def test_half_of_a_first_generation_trial(self, name: str) -> None:
        methods = {"build_model": FirstGeneration.build_model, "optimizer": FirstGeneration.optimizer}
        own = {key: value for key, value in methods.items() if key == name}
        if name == "create_lr_scheduler":
            own = {name: FirstGeneration.create_lr_scheduler}

        class Half(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                self.context = context

        missing = {"build_model", "optimizer"} - {name}
        with pytest.raises(InvalidExperimentException, match=missing.pop()):
            fit(type("Half", (Half,), own), max_length=pytorch.Batch(1))

    def test_inheriting_a_method_is_not_overriding_it(self) -> None:
        class Inherits(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                self.context = context

        with pytest.raises(InvalidExperimentException, match="wrap_model"):
            fit(Inherits, max_length=pytorch.Batch(1))


class TestFirstGeneration:
    def test_methods_that_shadow_themselves_are_called_once(self) -> None:
        class Shadowing(FirstGeneration):
            made: list[str] = []

            def build_model(self) -> torch.nn.Module:
                self.made.append("model")
                made = super().build_model()
                vars(self)["build_model"] = made
                return made

            def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
                self.made.append("optimizer")
                made = super().optimizer(model)
                vars(self)["optimizer"] = made
                return made

        trial = fit(Shadowing, max_length=pytorch.Batch(3))
        assert trial.made == ["model", "optimizer"]
        assert len(trial.losses) == 3

    def test_identities(self) -> None:
        class Remembering(FirstGeneration):
            made: pytorch.LRScheduler | None = None

            def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> pytorch.LRScheduler | None:
                self.given = optimizer
                self.made = super().create_lr_scheduler(optimizer)
                return self.made

        trial = fit(Remembering, max_length=pytorch.Batch(3))
        context = trial.context
        assert all(model is context.get_model() for model in trial.models)
        assert context.get_optimizer() is trial.given
        assert context.get_lr_scheduler() is trial.made
        assert context.lr_schedulers == [trial.made]

    def test_no_scheduler(self) -> None:
        trial = fit(
            type("Trial", (FirstGeneration,), {"create_lr_scheduler": lambda self, optimizer: None}),
            max_length=pytorch.Batch(1),
        )
        assert trial.context.get_lr_scheduler() is None

    def test_the_getters_cannot_be_used_in_the_constructor(self) -> None:
        class Early(FirstGeneration):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                context.get_model()

        with pytest.raises(InternalException, match="get_model"):
            fit(Early, max_length=pytorch.Batch(1))

    @pytest.mark.parametrize("foreign", [False, True])
    def test_schedulers_that_are_refused(self, foreign: bool) -> None:
        def create_lr_scheduler(self: Any, optimizer: torch.optim.Optimizer) -> Any:
            if not foreign:
                return torch.optim.lr_scheduler.StepLR(optimizer, 1)
            other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1)
            return pytorch.LRScheduler(
                torch.optim.lr_scheduler.StepLR(other, 1), pytorch.LRScheduler.StepMode.MANUAL_STEP
            )

        with pytest.raises(InvalidExperimentException, match="create_lr_scheduler"):
            fit(
                type("Trial", (FirstGeneration,), {"create_lr_scheduler": create_lr_scheduler}),
                max_length=pytorch.Batch(1),
            )

    def test_a_tensor_is_the_loss(self, data_home: Path) -> None:
        class Tensor(FirstGeneration):
            def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:  # type: ignore[override]
                return super().train_batch(batch, model, epoch_idx, batch_idx)["loss"]

        trial = fit(Tensor, seed=3, max_length=pytorch.Batch(2))
        assert trial.losses == fit(FirstGeneration, seed=3, max_length=pytorch.Batch(2)).losses
        assert "loss" in metrics(data_home, "training")[0]

    @pytest.mark.parametrize("wrong", [{"los": torch.tensor(1.0)}, None, 1.0])
    def test_a_missing_loss(self, wrong: Any) -> None:
        with pytest.raises(InvalidExperimentException, match="loss"):
            fit(
                type(
                    "Trial", (FirstGeneration,), {"train_batch": lambda self, batch, model, epoch_idx, batch_idx: wrong}
                ),
                max_length=pytorch.Batch(1),
            )

    def test_renamed_parameters_as_0_12_11_took_them(self) -> None:
        class Renamed(FirstGeneration):
            def train_batch(self, data: Any, net: Any, epoch: int, number: int) -> Any:  # type: ignore[override]
                assert isinstance(net, torch.nn.Module)
                assert (epoch, number) == (0, len(self.losses))
                return super().train_batch(data, net, epoch, number)

        assert len(fit(Renamed, max_length=pytorch.Batch(3)).losses) == 3

    def test_evaluate_full_dataset_gets_loader_and_model(self, data_home: Path) -> None:
        seen: list[Any] = []

        def evaluate_full_dataset(self: Any, data_loader: Any, model: Any) -> dict[str, Any]:
            assert isinstance(data_loader, torch.utils.data.DataLoader)
            assert not model.training
            seen.append(model)
            return {"batches_seen": sum(1 for _ in data_loader), "name": "whole"}

        trial = fit(
            type(
                "Trial",
                (FirstGeneration,),
                {
                    "evaluate_batch": pytorch.PyTorchTrial.evaluate_batch,
                    "evaluate_full_dataset": evaluate_full_dataset,
                },
            ),
            max_length=pytorch.Batch(1),
        )
        assert seen == [trial.context.get_model()]
        (row,) = metrics(data_home, "validation")
        assert (row["batches_seen"], row["name"]) == (6, "whole")

    def test_fit_twice(self) -> None:
        torch.manual_seed(0)
        with pytorch.init(hparams=HPARAMS) as context:
            trial = FirstGeneration(context)
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Batch(2), checkpoint_policy="none")
            model = context.get_model()
            trainer.fit(max_length=pytorch.Batch(3), checkpoint_policy="none")
        assert len(trial.losses) == 5
        assert context.models == [model]
        assert len(context.lr_schedulers) == 1

    def test_resume(self, data_home: Path) -> None:
        from tests.helpers.trials import checkpoints

        whole = fit(FirstGeneration, seed=5, max_length=pytorch.Batch(9))
        part = fit(FirstGeneration, seed=5, max_length=pytorch.Batch(4))
        uuid = checkpoints(data_home)[-1].name
        rest = fit(FirstGeneration, seed=5, max_length=pytorch.Batch(9), latest_checkpoint=uuid)
        assert part.losses + rest.losses == whole.losses
        assert equal(weights(rest), weights(whole))

    @pytest.mark.parametrize(
        ("hparams", "clip"),
        [
            ({"clip_grad_l2_norm": 0.01}, lambda p: torch.nn.utils.clip_grad_norm_(p, 0.01)),
            ({"clip_grad_val": 0.002}, lambda p: torch.nn.utils.clip_grad_value_(p, 0.002)),
        ],
    )
    def test_clipping_by_hyperparameters(self, hparams: dict[str, Any], clip: Any) -> None:
        trial = fit(FirstGeneration, seed=1, hparams=hparams, max_length=pytorch.Batch(4))
        assert equal(weights(trial), weights(clipped_by_hand(clip)))
        assert not equal(weights(trial), weights(fit(FirstGeneration, seed=1, max_length=pytorch.Batch(4))))

    @pytest.mark.parametrize(
        ("callback", "clip"),
        [
            (pytorch.ClipGradsL2Norm(0.01), lambda p: torch.nn.utils.clip_grad_norm_(p, 0.01)),
            (pytorch.ClipGradsL2Value(0.002), lambda p: torch.nn.utils.clip_grad_value_(p, 0.002)),
        ],
    )
    def test_clipping_by_callbacks(self, callback: Any, clip: Any) -> None:
        trial = fit(
            type("Trial", (FirstGeneration,), {"callbacks": {"clip": callback}}), seed=1, max_length=pytorch.Batch(4)
        )
        assert equal(weights(trial), weights(clipped_by_hand(clip)))

    def test_before_optimizer_step_of_all_callbacks_in_order_on_updating_batches(self) -> None:
        calls: list[Any] = []

        class Before(pytorch.PyTorchCallback):
            def __init__(self, name: str) -> None:
                self.name = name

            def on_before_optimizer_step(self, parameters: list[Any]) -> None:
                calls.append((self.name, len(parameters), all(p.grad is not None for p in parameters)))

        callbacks = {"one": Before("one"), "two": Before("two")}
        fit(
            type("Trial", (FirstGeneration,), {"callbacks": callbacks}),
            max_length=pytorch.Batch(4),
            options={"aggregation_frequency": 2},
        )
        assert calls == [("one", 4, True), ("two", 4, True)] * 2

    def test_both_ways_of_clipping_exclude_each_other(self) -> None:
        with pytest.raises(InvalidExperimentException, match=r"clip_grad_l2_norm.*clip_grad_val"):
            fit(
                FirstGeneration,
                hparams={"clip_grad_l2_norm": 1.0, "clip_grad_val": 1.0},
                max_length=pytorch.Batch(1),
            )

    def test_mixed_precision_of_the_configuration(self, caplog: pytest.LogCaptureFixture) -> None:
        dtypes: list[Any] = []

        class Watched(FirstGeneration):
            def build_model(self) -> torch.nn.Module:
                model = cast(torch.nn.Sequential, super().build_model())
                model[0].register_forward_hook(lambda module, args, output: dtypes.append(output.dtype))
                return model

        fit(
            Watched,
            options={"exp_conf": {"optimizations": {"mixed_precision": "O1"}}},
            max_length=pytorch.Batch(1),
        )
        assert set(dtypes) == {torch.bfloat16}
        assert any("O1" in record.getMessage() for record in caplog.records)
        dtypes.clear()
        fit(Watched, options={"exp_conf": {"optimizations": {"mixed_precision": "O0"}}}, max_length=pytorch.Batch(1))
        assert set(dtypes) == {torch.float32}

    def test_reset_parameters(self, caplog: pytest.LogCaptureFixture) -> None:
        model = make_model()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        with caplog.at_level(logging.WARNING):
            pytorch.reset_parameters(model)
        assert not equal(before, list(model.parameters()))
        assert "reset_parameters" in caplog.text


def clipped_by_hand(clip: Any) -> Any:
    class ByHand(SecondGeneration):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:  # type: ignore[override]
            metrics = FirstGeneration.train_batch(self, batch, self.model, epoch_idx, batch_idx)
            self.context.backward(metrics["loss"])
            self.context.step_optimizer(self.opt, clip_grads=clip)
            return metrics

    return fit(ByHand, seed=1, max_length=pytorch.Batch(4))


class TestSearcherUnits:
    """Lengths as searchers (third generation) and configurations give them."""

    def test_from_a_searchers_unit(self) -> None:
        convert = pytorch.TrainUnit._from_searcher_unit
        assert convert(3, "epochs") == pytorch.Epoch(3)
        assert convert(3, "batches") == pytorch.Batch(3)
        assert convert(100, "records", 32) == pytorch.Batch(3)
        assert convert(10, "records", 32) == pytorch.Batch(1)

    @pytest.mark.parametrize(("unit", "size"), [("records", None), ("parsecs", 1), (None, 1)])
    def test_units_that_are_refused(self, unit: Any, size: Any) -> None:
        with pytest.raises(ValueError):
            pytorch.TrainUnit._from_searcher_unit(3, unit, size)

    def test_from_the_values_of_a_configuration(self) -> None:
        convert = pytorch.TrainUnit._from_values
        assert convert(batches=3) == pytorch.Batch(3)
        assert convert(epochs=3) == pytorch.Epoch(3)
        assert convert(records=64, global_batch_size=32) == pytorch.Batch(2)
        assert not any(convert(batches=0).should_stop(step) for step in range(1, 1000))
        with pytest.raises(ValueError):
            convert()
        with pytest.raises(ValueError):
            convert(batches=1, epochs=1)
        with pytest.raises(AssertionError):
            convert(records=64)

    def test_to_a_searchers_unit(self) -> None:
        from determined.core import Unit

        assert pytorch.Batch(1)._to_searcher_unit() is Unit.BATCHES
        assert pytorch.Epoch(1)._to_searcher_unit() is Unit.EPOCHS

    def test_from_a_unit_of_the_core_api(self) -> None:
        from determined.core import Unit

        assert pytorch.TrainUnit._from_searcher_unit(2, Unit.RECORDS, 2) == pytorch.Batch(1)
