"""The remaining part of Determined's REST client package: `authentication` and `errors`."""

from __future__ import annotations

from typing import NoReturn

from determined.common.api import authentication, errors

__all__ = ["authentication", "errors"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: there is no master with a REST interface, use "
        "determined.experimental.client"
    )
