"""`UUID` or `UUID,UUID`: several checkpoints in one argument."""

from __future__ import annotations

import click


def uuids(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    """Each once."""
    found = list(dict.fromkeys(part.strip() for part in value.split(",")))
    if not all(found):
        raise click.BadParameter(f"{value!r} is no list of checkpoints, as one UUID, or several with commas between")
    return found
