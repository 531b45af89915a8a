"""The authentication mode of the processes that talk to Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


def with_mode(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with RAY_AUTH_MODE: as it is set, else `token` if there is a token, else `disabled`.

    Ray looks for a token in the same places; without the variable, versions of Ray differ in whether they use it. Ray
    reads the variable when it is imported, so it must be set before a process starts.
    """
    if environment.get(_MODE):
        return dict(environment)
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    path = environment.get(_TOKEN_PATH)
    has_token = bool(environment.get(_TOKEN)) or (Path(path) if path else home / ".ray" / "auth_token").is_file()
    return {**environment, _MODE: "token" if has_token else "disabled"}
