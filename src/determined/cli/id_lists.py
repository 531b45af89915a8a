"""`UUID,UUID` or `3,4,7`: several checkpoints or experiments in one argument."""

from __future__ import annotations

import click

from determined.cli.whole_numbers import ID


def uuids(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    """Each once."""
    found = list(dict.fromkeys(part.strip() for part in value.split(",")))
    if not all(found):
        raise click.BadParameter(f"{value!r} is no list of checkpoints, as one UUID, or several with commas between")
    return found


def numbers(context: click.Context, parameter: click.Parameter, value: str | tuple[str, ...]) -> list[int]:
    """Each once, from one argument or from several."""
    given = (value,) if isinstance(value, str) else value
    try:
        found = dict.fromkeys(int(part) for argument in given for part in argument.split(","))
    except ValueError:
        raise click.BadParameter(f"{','.join(given)!r} is no list of ids, as 3 or 3,4,7") from None
    return [ID.convert(number, parameter, context) for number in found]
