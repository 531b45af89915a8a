"""Train, search, pause and resume models; `import determined` loads neither torch nor numpy."""

import sys

from determined import errors
from determined.code_import import import_from_path
from determined.errors import InvalidHP
from determined.info import ClusterInfo, RendezvousInfo, ResourcesInfo, TrialInfo, get_cluster_info
from determined.trial import LegacyTrial, TrialContext

__version__ = "1.0.0"

LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"

Trial = LegacyTrial

# Where the documentation of 0.12 places TrialContext.
sys.modules[f"{__name__}._train_context"] = sys.modules[__name__]

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
