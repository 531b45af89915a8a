"""The SDK under its old module name: every name of `determined.experimental.client`."""

from __future__ import annotations

import sys
from typing import Any

from determined.experimental import client

__all__ = list(client.__all__)

# Older releases had each class in a separate module; all of those names refer to this module.
for _name in ("checkpoint", "determined", "experiment", "metrics", "model", "project", "trial", "user", "workspace"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    return getattr(client, name)
