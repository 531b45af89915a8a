"""Train and tune PyTorch models. `import determined` loads neither torch nor numpy."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from determined import absent_modules, errors
from determined.errors import InvalidHP
from determined.info import ClusterInfo, RendezvousInfo, ResourcesInfo, TrialInfo, get_cluster_info
from determined.user_code.imports import import_from_path

if TYPE_CHECKING:
    from determined.trial import LegacyTrial, TrialContext

    Trial = LegacyTrial

__version__ = "1.0.0"

absent_modules.install()

LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"

# Release 0.12 documents TrialContext in this module.
sys.modules[f"{__name__}._train_context"] = sys.modules[__name__]

# Imported on first access, because light commands of `det` need none of them.
_LATER = {
    "TrialContext": ("determined.trial", "TrialContext"),
    "LegacyTrial": ("determined.trial", "LegacyTrial"),
    "Trial": ("determined.trial", "LegacyTrial"),
    "core": ("determined.core", None),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LATER[name]
    loaded = importlib.import_module(module)
    return loaded if attribute is None else getattr(loaded, attribute)


__all__ = [
    "__version__",
    "LOG_FORMAT",
    "get_cluster_info",
    "ClusterInfo",
    "TrialInfo",
    "RendezvousInfo",
    "ResourcesInfo",
    "InvalidHP",
    "import_from_path",
    "TrialContext",
    "LegacyTrial",
    "Trial",
    "errors",
]
