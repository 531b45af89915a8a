"""Environment variables that are on or off."""

from __future__ import annotations

from pathlib import Path

import pytest

from determined import core, pytorch
from determined.config.stored import StoredConfig
from determined.errors import DeterminedError
from determined.experiment.code import startup_hook
from determined.switches import is_on


@pytest.mark.parametrize(
    ("value", "on"),
    [(None, True), ("", True), *((text, True) for text in ("1", "true", "On", "YES"))]
    + [(text, False) for text in ("0", "False", "off", "NO", " 0 ")],
)
def test_values(value: str | None, on: bool) -> None:
    assert is_on({} if value is None else {"DET_X": value}, "DET_X") is on


def init_core() -> None:
    core.init()


def init_pytorch() -> None:
    pytorch.init()


def create() -> None:
    startup_hook.is_wanted(StoredConfig({}))


@pytest.mark.parametrize(
    ("variable", "use"),
    [
        ("DET_STORE_OUTPUT", init_core),
        ("DET_STORE_OUTPUT", init_pytorch),
        ("DET_PROGRESS", init_pytorch),
        ("DET_STARTUP_HOOK", create),
    ],
)
def test_a_value_that_is_neither_is_refused(
    data_home: Path, variable: str, use: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every variable of this kind, at its first use; nothing is left behind."""
    monkeypatch.setenv(variable, "maybe")
    expected = (
        f"{variable} is 'maybe': expected 1, true, on, yes to switch it on, or 0, false, off, no to switch it off"
    )
    with pytest.raises(DeterminedError, match=expected):
        use()  # type: ignore[operator]
    assert not list(data_home.rglob("store.sqlite"))
