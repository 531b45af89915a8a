"""The package that `determined.common` was in releases 0.12 and 0.13: the same modules under their old names."""

from __future__ import annotations

import sys

from determined.common import api, experimental
from determined.common.api import authentication, errors

__all__ = ["api", "experimental"]

_MODULES = {"api": api, "api.authentication": authentication, "api.errors": errors, "experimental": experimental}
for _name, _module in _MODULES.items():
    # The same objects, not copies: `except errors.NotFoundException` must catch what the SDK raises.
    sys.modules[f"{__name__}.{_name}"] = _module
for _name in ("checkpoint", "determined", "experiment", "model", "trial"):
    sys.modules[f"{__name__}.experimental.{_name}"] = experimental
