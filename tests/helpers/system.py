"""What a test needs of the machine beside Python packages."""

from __future__ import annotations

import os

import pytest


def missing(what: str, package: str) -> None:
    """Skip a test for want of a system package; on CI, where everything must be there, fail instead."""
    message = f"{what} is not installed: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
