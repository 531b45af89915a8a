"""The authentication mode of our processes is explicit, and follows the places where Ray looks for a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from determined.engines.ray.authentication import with_mode


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, "disabled"),
        ({"RAY_AUTH_TOKEN": "secret"}, "token"),
        ({"RAY_AUTH_TOKEN_PATH": "{home}/elsewhere"}, "token"),
        ({"RAY_AUTH_TOKEN_PATH": "{home}/missing"}, "disabled"),
        ({"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "secret"}, "disabled"),
    ],
)
def test_modes(given: dict[str, str], mode: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("secret")
    environment = {name: value.format(home=tmp_path) for name, value in given.items()}
    found = with_mode({"HOME": str(tmp_path), **environment})
    assert found == {"HOME": str(tmp_path), **environment, "RAY_AUTH_MODE": mode}


def test_a_token_in_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    assert with_mode({"HOME": str(tmp_path)})["RAY_AUTH_MODE"] == "token"
