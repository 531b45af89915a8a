"""Environment variables that switch something on or off."""

from __future__ import annotations

from collections.abc import Mapping

from determined.errors import DeterminedError

_ON = ("1", "true", "on", "yes")
_OFF = ("0", "false", "off", "no")


def is_on(environment: Mapping[str, str], variable: str) -> bool:
    """Return whether a variable is switched on, as an unset or empty one is; raise for an unknown value.

    Treating an unknown value as the default could be the opposite of what the user meant.
    """
    value = environment.get(variable, "").strip().lower()
    if value in _OFF:
        return False
    if value in _ON or not value:
        return True
    raise DeterminedError(
        f"{variable} is {environment[variable]!r:.80}: expected {', '.join(_ON)} to switch it on, or {', '.join(_OFF)} "
        "to switch it off"
    )
