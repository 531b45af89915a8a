"""Collect, check, encode and decode the states of a trial's models, optimizers, schedulers and callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from determined.errors import InvalidCheckpointException
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint.pickled_state import PickledParts, Pickles
from determined.pytorch.checkpoint.run_references import references_of, references_of_models
from determined.pytorch.checkpoint.state_codec import Decoder, Encoder, Lazy, Problem, References, has_tags, problems_in
from determined.pytorch.checkpoint.state_codec.known import Known
from determined.pytorch.checkpoint.state_codec.paths import MISSING
from determined.pytorch.checkpoint.state_codec.paths import Path as Place
from determined.pytorch.checkpoint.state_codec.tags import KIND, PICKLED_PART, tags_in
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.ranks.data_parallel import bare

logger = logging.getLogger("determined.pytorch")

# A state may contain thousands of values of one kind.
_MOST_SHOWN = 10
# Parameters of lazy modules have no values before the first batch, and are ordinary parameters after it.
_GET_VALUES_LATER = ("torch.nn.parameter.UninitializedParameter", "torch.nn.parameter.UninitializedBuffer")
_OPTIONS = (
    "convert it to numbers, strings, lists, dicts, arrays or tensors in state_dict() and back in load_state_dict(); or "
    "register its class with torch.serialization.add_safe_globals, if it is written in Python; or call "
    "context.experimental.allow_pickled_state()"
)


class EncodedState(NamedTuple):
    """A checkpoint as plain data, with the values that could not be encoded and those that were pickled."""

    tree: dict[str, Any]
    size: int  # of all tensors, in bytes
    problems: list[Problem]
    pickles: list[bytes]

    def metadata(self) -> dict[str, Any]:
        """Return entries for the metadata of the checkpoint; empty if it is complete and contains no pickles."""
        about: dict[str, Any] = {}
        if self.problems:
            # The metadata is a column in the store and a line in lists, so it stays short.
            about["incomplete"] = [f"{problem.path} ({problem.type})" for problem in self.problems[:100]]
        if self.pickles:
            pickled = [tag for tag in tags_in(self.tree) if tag[KIND] == PICKLED_PART]
            about["pickled_state"] = [f"{tag['path']} ({tag['type']})" for tag in pickled[:100]]
        return about

    def log_problems(self, checkpoint: str) -> None:
        """Log the values that are missing in the checkpoint."""
        if self.problems:
            logger.error(
                "checkpoint %s is incomplete, training cannot be resumed from it (its weights can be loaded): %s\n"
                "To save such a value: %s",
                checkpoint,
                _listed(self.problems),
                _OPTIONS,
            )


class TrialStates:
    """All objects with a `state_dict()` in a trial.

    Values of the program's own classes are rebuilt with the class that a resumed run has in the same place before it
    restores anything. `_known` records which classes were in which places when training began.
    """

    def __init__(self, context: PyTorchTrialContext, callbacks: Callbacks, trial: Any) -> None:
        self._context = context
        self._callbacks = callbacks
        self._trial = trial
        self._known: Mapping[Place, Known] | None = None
        self._warned: set[str] = set()  # names of classes that were already in a warning

    def take(self) -> dict[str, Any]:
        """Return the current states: lists in the order of wrapping, callbacks by name."""
        return {
            key: [function() for function in functions] if isinstance(functions, list) else _states_of(functions)
            for key, functions in self._sources().items()
        }

    def check(self) -> None:
        """Raise TypeError if a state cannot be saved; called before the first batch, not at the first checkpoint."""
        # Encoded as in a new process, without the classes that an earlier fit recorded.
        self._known = None
        encoder, _ = self._encoder()
        found = problems_in(encoder.encode(self._take_early(logging.WARNING)))
        problems = [problem for problem in found if problem.type not in _GET_VALUES_LATER]
        self._known = encoder.found
        if problems:
            raise TypeError(
                f"the state of the trial cannot be saved in a checkpoint: {_listed(problems)}\n"
                f"To save such a value: {_OPTIONS}"
            )

    def encode(self, checkpoint: dict[str, Any]) -> EncodedState:
        """Return a checkpoint as plain data; values that cannot be encoded are left out and listed in `problems`."""
        sizes: list[int] = []

        def count(tensor: torch.Tensor) -> torch.Tensor:
            sizes.append(tensor.numel() * tensor.element_size())  # sparse tensors have no `nbytes`
            return tensor

        encoder, pickles = self._encoder(count)
        tree = encoder.encode(checkpoint)
        # At the save, while the user can still register the class, and not when a resume fails.
        self._warn_of_unknown(encoder.to_register)
        problems = [] if encoder.complete else problems_in(tree)
        return EncodedState(tree, sum(sizes), problems, pickles.parts if pickles is not None else [])

    def decode(self, checkpoint: dict[str, Any], directory: Path, name: str) -> dict[str, Any]:
        """Return a checkpoint read from a file with its values restored; `name` is used in messages.

        Raises InvalidCheckpointException if it is incomplete or does not fit the trial.
        """
        if not has_tags(checkpoint):
            return checkpoint
        # Before anything is decoded or restored: a partly restored trial would train from a mixed state.
        problems = problems_in(checkpoint)
        if problems:
            raise InvalidCheckpointException(
                f"checkpoint {name} is incomplete, training cannot be resumed from it (its weights can be loaded with "
                f"load_trial_from_checkpoint_path): {_listed(problems)}"
            )
        references = self._references()
        unpickled: Callable[[int], Any] | None = None
        if self._context.experimental._pickled_state:
            unpickled = PickledParts(directory, name, references).get
        known = self._known
        if known is None and self._context._current_batch_idx is not None:
            known = {}  # an earlier fit trained these objects, so they are no longer as in a new process
        decoder = Decoder(name, references, unpickled, known)
        templates = {key: _lazily(functions, key) for key, functions in self._sources().items()}
        decoded: dict[str, Any] = {}
        for key, tree in checkpoint.items():
            if key == "callbacks" and isinstance(tree, dict):
                # States of callbacks that this trial lacks stay encoded: nothing here can name their classes.
                mine = {name: one for name, one in tree.items() if name in self._callbacks.by_name}
                others = {name: one for name, one in tree.items() if name not in mine}
                decoded[key] = {**decoder.decode(mine, templates[key], ("item", key)), **others}
            elif key in templates or key.startswith("rank_") or self._wants_all():
                decoded[key] = decoder.decode(tree, templates.get(key, MISSING), ("item", key))
            else:
                decoded[key] = tree  # added by a callback that this program does not have, and therefore unused
        # After all values are decoded, because a state may refer to any of them.
        decoder.load_states()
        return decoded

    def _warn_of_unknown(self, classes: dict[str, str]) -> None:
        """Warn once about classes that a resumed run will find only if they are registered."""
        new = {name: place for name, place in classes.items() if name not in self._warned}
        self._warned.update(new)
        if new:
            logger.warning(
                "checkpoints hold values of classes that a resumed run will not find by itself, because the state had "
                "no such value in that place when training began: %s. Register the classes with "
                "torch.serialization.add_safe_globals before resuming",
                ", ".join(f"{name} ({place})" for name, place in new.items()),
            )

    def _references(self) -> References:
        """Return the names of the objects that states may refer to."""
        return references_of(self._context, self._callbacks, self._trial)

    def _wants_all(self) -> bool:
        """Return whether a callback adds entries to checkpoints or reads them."""
        return self._callbacks.overrides("on_checkpoint_save_start") or self._callbacks.overrides(
            "on_checkpoint_load_start"
        )

    def _sources(self) -> dict[str, Any]:
        """Return the function that gives each state, in the structure of a checkpoint."""
        context = self._context
        sources: dict[str, Any] = {
            "models_state_dict": [bare(model).state_dict for model in context.models],
            "optimizers_state_dict": [optimizer.state_dict for optimizer in context.optimizers],
            "lr_schedulers_state_dict": [scheduler.state_dict for scheduler in context.lr_schedulers],
            "callbacks": {
                name: callback.state_dict
                for name, callback in self._callbacks.by_name.items()
                if callable(getattr(callback, "state_dict", None))
            },
        }
        if context._precision.scaler is not None:
            sources["scaler_state_dict"] = context._precision.scaler.state_dict
        return sources

    def _take_early(self, level: int) -> dict[str, Any]:
        """Return the states that can be read before training; failures are logged with `level`."""

        def read(function: Callable[[], Any], place: str) -> Any:
            """Return a state; log that it cannot be read before training, and return None, if that is so."""
            try:
                return function()
            except Exception as error:  # noqa: BLE001  (raised again by the first save, unless training fixes it)
                logger.log(
                    level,
                    "%s: state_dict() cannot be called before training, so whether it can be saved is seen at the "
                    "first checkpoint: %s: %s",
                    place,
                    type(error).__name__,
                    error,
                )
                return None

        taken: dict[str, Any] = {}
        for key, functions in self._sources().items():
            if isinstance(functions, dict):
                taken[key] = {name: read(function, f"{key}[{name!r}]") for name, function in functions.items()}
            elif isinstance(functions, list):
                taken[key] = [read(function, f"{key}[{number}]") for number, function in enumerate(functions)]
            else:
                taken[key] = read(functions, key)
        return taken

    def _encoder(
        self, tensor: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor
    ) -> tuple[Encoder, Pickles | None]:
        """Return an encoder and, if the trial allows pickles, the object that collects them."""
        references = self._references()
        pickles = Pickles(references) if self._context.experimental._pickled_state else None
        return Encoder(references, self._known, tensor, pickles.add if pickles is not None else None), pickles


def decode_weights(checkpoint: dict[str, Any], models: list[torch.nn.Module], name: str) -> dict[str, Any]:
    """Return a checkpoint in which only the states of models are decoded, which is all that loading weights needs."""
    key = "models_state_dict"
    tree = checkpoint.get(key)
    if not has_tags(tree):
        return checkpoint
    decoder = Decoder(name, references_of_models(models))
    templates = [Lazy(bare(model).state_dict) for model in models]
    decoded = {**checkpoint, key: decoder.decode(tree, templates, ("item", key))}
    decoder.load_states()
    return decoded


def _states_of(functions: Any) -> Any:
    """Call the state functions of callbacks by name, or a single state function."""
    return {name: function() for name, function in functions.items()} if isinstance(functions, dict) else functions()


def _lazily(functions: Any, place: str) -> Any:
    """Return templates that call the state functions only when a value needs them."""
    if isinstance(functions, dict):
        return {name: _lazily(function, f"{place}[{name!r}]") for name, function in functions.items()}
    if isinstance(functions, list):
        return [_lazily(function, f"{place}[{number}]") for number, function in enumerate(functions)]

    def template() -> Any:
        """Call the state function; MISSING if it fails before the state is restored, as some do."""
        try:
            return functions()
        except Exception as error:  # noqa: BLE001  (a value that needs this template raises an error that names its path)
            logger.warning("%s: state_dict() failed before its state was restored: %s", place, error)
            return MISSING

    return Lazy(template)


def _listed(problems: list[Problem]) -> str:
    """Return the problems as text, at most ten of them."""
    more = f"\n  and {len(problems) - _MOST_SHOWN} more" if len(problems) > _MOST_SHOWN else ""
    if len(problems) == 1:
        return str(problems[0])
    return "".join(f"\n  {problem}" for problem in problems[:_MOST_SHOWN]) + more
