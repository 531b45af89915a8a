"""The SDK under its old place: every name of `determined.experimental.client`."""

from __future__ import annotations

import sys
from typing import Any

from determined.experimental import client

__all__ = list(client.__all__)

# Releases had each class in a module of its own here; all of them are this module.
for _name in ("checkpoint", "determined", "experiment", "metrics", "model", "project", "trial", "user", "workspace"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    return getattr(client, name)
