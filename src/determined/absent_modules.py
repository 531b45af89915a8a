"""Explain imports of Determined modules that this library does not have: the error says what to use instead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_PYTORCH_ONLY = (
    "only PyTorch is supported: write a determined.pytorch.PyTorchTrial, or your own loop with determined.core"
)
_DEEPSPEED = "train with torch's own backends, or drive DeepSpeed yourself with determined.core"
_LIGHTNING = "write a PyTorchTrial, or use Lightning's Trainer with determined.core"
_CONFIGURATION = "check a configuration with `det experiment create --dry-run CONFIG DIR`"
_STORAGE = "checkpoint_storage in the configuration names the storage; context.checkpoint of determined.core uses it"
_TENSORBOARD = "write event files to context.get_tensorboard_path(); `det tensorboard start` shows them"
_REST = "there is no master with a REST interface: use determined.experimental.client"
_COMMAND_LINE = (
    "it belonged to Determined's own command line: call the command `det`, or determined.experimental.client"
)
_LOOP = "it belonged to Determined's own training loop: use determined.pytorch.Trainer"
_HARDWARE = "ask torch (torch.cuda.device_count()) or determined.get_cluster_info().slot_ids"

# By module name; a reason also applies to all submodules. `determined_common` has the reasons of `determined.common`,
# its later name.
_REASONS = {
    "determined._core": "it is determined.core since 0.18",
    "determined._generic": "it is determined.core since 0.18",
    "determined.callback": "use determined.pytorch.PyTorchCallback",
    "determined.common.api.analytics": "nothing is sent anywhere, so there is nothing to configure",
    "determined.common.api.bindings": _REST,
    "determined.common.api.certs": "there is no master to connect to, so there are no certificates",
    "determined.common.api.checkpoint": "use determined.experimental.client.get_checkpoint",
    "determined.common.api.experiment": "use determined.experimental.client.get_experiment",
    "determined.common.api.logs": "use Trial.iter_logs of determined.experimental.client",
    "determined.common.api.metric": "use Trial.iter_metrics of determined.experimental.client",
    "determined.common.api.profiler": "use context.profiler of determined.core",
    "determined.common.api.request": _REST,
    "determined.common.check": "raise ValueError, or use assert",
    "determined.common.constants": _COMMAND_LINE,
    "determined.common.context": "use create_experiment(model_dir=, includes=) of determined.experimental.client",
    "determined.common.declarative_argparse": "use argparse or click",
    "determined.common.detignore": ".detignore files are read by `det experiment create`",
    "determined.common.detlomond": _REST,
    "determined.common.experimental.oauth2_scim_client": "there are no accounts to administer",
    "determined.common.experimental.resource_pool": "there are no resource pools: `det doctor` shows slots",
    "determined.common.experimental.session": _REST,
    "determined.common.requests": _REST,
    "determined.common.schemas": _CONFIGURATION,
    "determined.common.storage": _STORAGE,
    "determined.common.streams": _REST,
    "determined.common.types": "use the classes of determined.experimental.client as types",
    "determined.common.util": "merge_dicts is in determined.util; the rest belonged to Determined's own command line",
    "determined.common.v1file_utils": _COMMAND_LINE,
    "determined.constants": "it held settings of a cluster's containers, which do not exist here",
    "determined.deploy": "there is nothing to deploy: `pip install determined-pytorch` is enough",
    "determined.estimator": _PYTORCH_ONLY,
    "determined.experimental.estimator": _PYTORCH_ONLY,
    "determined.experimental.keras": _PYTORCH_ONLY,
    "determined.gpu": _HARDWARE,
    "determined.ipc": "use the collectives of core.DistributedContext (allgather, gather, broadcast)",
    "determined.keras": _PYTORCH_ONLY,
    "determined.launch.tensorflow": _PYTORCH_ONLY,
    "determined.layers": _LOOP,
    "determined.lightning": _LIGHTNING,
    "determined.load": "use determined.pytorch.load_trial_from_checkpoint_path, or determined.import_from_path",
    "determined.monkey_patch": "nothing needs to be patched: remove the import",
    "determined.profile": "use Trainer.fit(profiling_enabled=True), or context.set_profiler",
    "determined.profiler": "use Trainer.fit(profiling_enabled=True), or context.profiler of determined.core",
    "determined.pytorch.deepspeed": _DEEPSPEED,
    "determined.pytorch.dsat": _DEEPSPEED,
    "determined.pytorch.lightning": _LIGHTNING,
    "determined.searcher": "name a search in the configuration; searcher.name optuna has samplers that learn",
    "determined.tensorboard.azure": _TENSORBOARD,
    "determined.tensorboard.base": _TENSORBOARD,
    "determined.tensorboard.build": _TENSORBOARD,
    "determined.tensorboard.fetchers": _TENSORBOARD,
    "determined.tensorboard.gcs": _TENSORBOARD,
    "determined.tensorboard.hdfs": _TENSORBOARD,
    "determined.tensorboard.metric_writers.tensorflow": _PYTORCH_ONLY,
    "determined.tensorboard.metric_writers.util": "use determined.tensorboard.metric_writers.pytorch.TorchWriter",
    "determined.tensorboard.s3": _TENSORBOARD,
    "determined.tensorboard.shared": _TENSORBOARD,
    "determined.tensorboard.util": _TENSORBOARD,
    "determined.tensorpack": _PYTORCH_ONLY,
    "determined.transformers": _PYTORCH_ONLY,
    "determined.workload": _LOOP,
}


class ExplainingFinder:
    """An import finder that raises an explanation; it is last on `sys.meta_path`, after all others found nothing."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError with an explanation for a module of Determined that does not exist here."""
        # Every import that fails anywhere in the program passes here, so this test must be cheap.
        if fullname.partition(".")[0] not in ("determined", "determined_common"):
            return None
        reason = why_absent(fullname)
        if reason is None:
            return None
        # Without the argument `name`, because `from determined import keras` would replace this text by Python's.
        raise ModuleNotFoundError(f"there is no {fullname} here: {reason}")


def why_absent(fullname: str) -> str | None:
    """Return what to use instead of a module; None if it is no module of Determined or exists here."""
    name = fullname.replace("determined_common", "determined.common", 1)
    while name not in _REASONS:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return _REASONS[name]


def install() -> None:
    """Add the finder to `sys.meta_path`, once."""
    if not any(isinstance(finder, ExplainingFinder) for finder in sys.meta_path):
        sys.meta_path.append(ExplainingFinder())
