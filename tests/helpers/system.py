"""Skips tests that need more of the machine than Python packages."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str, package: str) -> NoReturn:
    """Skip a test because a system package is missing; on CI, where all must be installed, fail instead."""
    impossible(f"{what} is not installed: apt-get install {package}")


def impossible(reason: str) -> NoReturn:
    """Skip a test that cannot run on this machine, for example without root; on CI, fail instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
