"""Lists the fields of a configuration, to suggest which field a misspelled name was meant to be."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import Tag

from determined.config.blocks.block import TAG, Block

# The path of a block in a configuration, including the tags of alternatives.
Place = tuple[str, ...]

# Thresholds of similarity for difflib: the farther away a field is, the more similar its name must be.
_SURE, _LIKELY, _PERHAPS = 0.85, 0.75, 0.6
# A longer list would hide the mistake.
_FEW = 12
_SHORTEST = 3  # shorter names are the beginning of too many fields


@cache
def catalog(model: type[Block]) -> dict[Place, tuple[str, ...]]:
    """Return the field names of every block of a model, by the path of the block."""
    return dict(_walk(model, ()))


def field_hint(model: type[Block], place: Place, name: str) -> str:
    """Return a hint for a field that the block at `place` does not have; empty if there is none."""
    known = catalog(model)
    here = known.get(place, ())
    if near := get_close_matches(name, here, n=1, cutoff=_LIKELY) or _longer(name, here):
        return f"did you mean {near[0]}?"
    if owners := _alternatives_with(known, place, name):
        return f"it belongs to {', '.join(owners)}"
    everywhere = {_shown(at, field): field for at, fields in known.items() if at != place for field in fields}
    if same := [path for path, field in everywhere.items() if field == name]:
        # The least nested field is the most likely one.
        return f"did you mean {min(same, key=lambda path: (path.count('.'), path))}?"
    if near := get_close_matches(name, here, n=1, cutoff=_PERHAPS):
        return f"did you mean {near[0]}?"
    if near := get_close_matches(name, list(everywhere.values()), n=1, cutoff=_SURE):
        return f"did you mean {next(path for path, field in everywhere.items() if field == near[0])}?"
    return f"known here: {', '.join(here)}" if 0 < len(here) <= _FEW else ""


def _longer(name: str, names: tuple[str, ...]) -> list[str]:
    """Return the field names of which this name may be an abbreviation, such as `env`."""
    return [known for known in names if len(name) >= _SHORTEST and known.startswith(name)]


def list_fields(model: type[Block]) -> frozenset[str]:
    """Return the dotted paths of the fields whose value is always a list."""
    return frozenset(
        _shown(place, name)
        for place, block in blocks(model)
        for name, field in block.model_fields.items()
        # An entrypoint may be a list too, but a text for it is a command.
        if any(get_origin(part) is tuple for part in parts(field.annotation)) and name != "entrypoint"
    )


def _alternatives_with(known: dict[Place, tuple[str, ...]], place: Place, name: str) -> list[str]:
    """Return the alternatives of a block, such as other searchers, that have this field."""
    if not place or not place[-1].startswith(TAG):
        return []
    return [
        at[-1].removeprefix(TAG)
        for at, fields in known.items()
        if at[:-1] == place[:-1] and at[-1].startswith(TAG) and name in fields
    ]


def _shown(place: Place, name: str) -> str:
    """Return a dotted path without tags."""
    return ".".join([*(part for part in place if not part.startswith(TAG)), name])


def _walk(model: type[Block], place: Place) -> Iterator[tuple[Place, tuple[str, ...]]]:
    for at, block in blocks(model, place):
        yield at, tuple(block.model_fields)


def blocks(model: type[Block], place: Place = ()) -> Iterator[tuple[Place, type[Block]]]:
    """Yield a block's class and those of all blocks inside it, each with its path; `place` is the path of the first."""
    yield place, model
    for name, field in model.model_fields.items():
        for tag, inner in blocks_in(field.annotation):
            yield from blocks(inner, (*place, name, *tag))


def blocks_in(annotation: Any, tag: Place = ()) -> Iterator[tuple[Place, type[Block]]]:
    """Yield the blocks in a type annotation, each with the tag of its alternative."""
    if isinstance(annotation, type) and issubclass(annotation, Block):
        yield tag, annotation
    elif get_origin(annotation) is Annotated:
        inner, *extras = get_args(annotation)
        tags = tuple(extra.tag for extra in extras if isinstance(extra, Tag))
        yield from blocks_in(inner, tags or tag)
    else:
        for part in get_args(annotation):
            yield from blocks_in(part, tag)


def parts(annotation: Any) -> Iterator[Any]:
    """Yield the alternatives of a type annotation without their metadata."""
    if get_origin(annotation) is Annotated:
        yield from parts(get_args(annotation)[0])
    elif get_origin(annotation) in (None, tuple, dict, list):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from parts(part)
