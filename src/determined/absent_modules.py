"""Modules of Determined that are not here: importing one says why, and what to use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_PYTORCH_ALONE = (
    "only PyTorch is served: write a determined.pytorch.PyTorchTrial, or a loop of your own with determined.core"
)

_REASONS = {
    "determined.keras": _PYTORCH_ALONE,
    "determined.transformers": _PYTORCH_ALONE,
    "determined.launch.tensorflow": _PYTORCH_ALONE,
    "determined.pytorch.deepspeed": "train with torch's own backends, or drive DeepSpeed yourself with determined.core",
    "determined.pytorch.lightning": "write a PyTorchTrial, or use Lightning's Trainer with determined.core",
    "determined.searcher": "a search is named in the configuration; searcher.name optuna has samplers that learn",
    "determined._core": "it is determined.core since 0.18",
    "determined._generic": "it is determined.core since 0.18",
}


class ExplainingFinder:
    """Stands behind all others on `sys.meta_path`, so that it is asked only for what nobody found."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _REASONS:
            # Without its `name`: `from determined import keras` would put words of its own in the place of these.
            raise ModuleNotFoundError(f"there is no {fullname} here: {_REASONS[fullname]}")
        return None


def install() -> None:
    if not any(isinstance(finder, ExplainingFinder) for finder in sys.meta_path):
        sys.meta_path.append(ExplainingFinder())
