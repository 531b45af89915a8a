"""What a test needs of the machine beside Python packages."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str, package: str) -> NoReturn:
    """Skip a test for want of a system package; on CI, where everything must be there, fail instead."""
    impossible(f"{what} is not installed: apt-get install {package}")


def impossible(reason: str) -> NoReturn:
    """Skip a test that cannot run on this machine, for example without root; on CI, fail instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
