"""Write docs/api-table.md from tools/api_names.txt: `make reference`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

NAMES = Path(__file__).with_name("api_names.txt")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "api-table.md"

STATUSES = {
    "works": "works",
    "warns": "works, with a warning",
    "accepted": "accepted, does nothing",
    "refused": "refused, with advice",
    "absent": "not there",
    "read": "read, named in a warning",
    "old": "rewritten, shown in a note",
}

_HEAD = """# The API table

Every name of Determined 0.12 to 0.38 that programs, configurations and command lines use, the releases that had it, and
its status here; and the names that are new. *0.38* alone means that 0.38.1 has it, and earlier releases perhaps as
well. Names that behave differently: [differences](differences.md).

| generation | releases | a program |
|---|---|---|
| first | 0.12.0 to 0.12.12 (0.13.13, with warnings) | defines `build_model` and `optimizer`; the loop does the rest |
| second | 0.12.13 to 0.20.1 | wraps models in `__init__`, and calls `context.backward` and `context.step_optimizer` |
| third | 0.21.0 to 0.37.0 | also calls `pytorch.init()` and `Trainer.fit()`; the searcher defines how long to train |
| fourth | 0.38.0 and 0.38.1 | defines how long to train itself: `fit(max_length=...)` |

All four are supported: the generation of a trial is recognized automatically.

| status | meaning |
|---|---|
| works | as it did, or better |
| works, with a warning | as it did; one warning names the replacement |
| accepted, does nothing | so that old programs and command lines still run |
| read, named in a warning | a field that is checked and has no effect without a master |
| rewritten, shown in a note | a field of an older release, converted to the current one |
| refused, with advice | an error with a suggestion |
| not there | using it is an ordinary error of Python or of the command |

This page is written by `make reference`. The tests check every name and field on it, and that no public
name is missing.
"""


@dataclass(frozen=True)
class Entry:
    """One row of the table: names with the same status."""

    names: tuple[str, ...]  # full names
    described: tuple[str, ...]  # names that are not attributes, such as arguments
    releases: str
    status: str
    today: str
    example: str


@dataclass(frozen=True)
class Section:
    title: str
    kind: str
    about: str
    entries: tuple[Entry, ...]


def sections() -> list[Section]:
    text = "\n".join(line for line in NAMES.read_text().split("\n") if not line.startswith("#"))
    return [_section(part) for part in re.split(r"^= ", text, flags=re.MULTILINE)[1:]]


def page() -> str:
    return "\n".join([_HEAD, *(line for section in sections() for line in _shown(section))])


def write() -> None:
    PAGE.write_text(page())


def _section(text: str) -> Section:
    title, *lines = text.strip().split("\n")
    kind = about = prefix = ""
    entries = []
    for line in lines:
        if line.startswith("* "):
            kind = line[2:]
        elif line.startswith("> "):
            about = line[2:]
        elif line.startswith("@ "):
            prefix = line[2:].strip()
        elif line.strip():
            entries.append(_entry(line, prefix))
    return Section(title, kind, about, tuple(entries))


def _entry(line: str, prefix: str) -> Entry:
    cells = [cell.strip() for cell in line.split("|")]
    names, releases, status, today, example = (cells + [""] * 5)[:5]
    if status not in STATUSES:
        raise ValueError(f"{NAMES.name}: {status!r} is no status: {line}")
    listed = [name.strip() for name in re.split(r",(?![^()]*\)) ", names)]
    return Entry(
        names=tuple(_full(name, prefix) for name in listed if not name.startswith("~")),
        described=tuple(_full(name[1:], prefix) for name in listed if name.startswith("~")),
        releases=releases,
        status=status,
        today=today,
        example=example,
    )


def _full(name: str, prefix: str) -> str:
    if name == ".":
        return prefix
    return f"{prefix}.{name}" if prefix and not name.startswith("determined.") else name


def _shown(section: Section) -> Iterator[str]:
    yield from [f"## {section.title}", ""]
    if section.about:
        yield from [section.about, ""]
    yield from ["| name | releases | here | today |", "|---|---|---|---|"]
    for entry in section.entries:
        for name in [*_together(entry.names), *map(_code, entry.described)]:
            yield f"| {name} | {_releases(entry.releases)} | {STATUSES[entry.status]} | {entry.today} |"
    yield ""


def _together(names: tuple[str, ...]) -> Iterator[str]:
    """Return names as shown: arguments of one function, and values of one enumeration, are on one line."""
    for (owner, kind), group in groupby(names, key=_owner):
        members = [name.removeprefix(owner).strip(".()") for name in group]
        if kind == "argument":
            yield _code(f"{owner.removesuffix('.__init__')}({', '.join(members)})")
        elif kind == "value":
            yield f"{_code(owner)}: {', '.join(map(_code, members))}"
        else:
            yield _code(owner)


def _owner(name: str) -> tuple[str, str]:
    """Return the function or class of a name, by which names are grouped."""
    function, found, _ = name.partition("(")
    if found:
        return function, "argument"
    parent, _, last = name.rpartition(".")
    is_value = re.fullmatch(r"[A-Z][A-Z_]+", last) and parent.rpartition(".")[2][:1].isupper()
    return (parent, "value") if is_value else (name, "name")


def _code(name: str) -> str:
    return f"`{name}`"


def _releases(releases: str) -> str:
    if releases == "new":
        return "new"
    since, _, removed = releases.partition(" <")
    return f"{since}, removed in {removed}" if removed else since


if __name__ == "__main__":
    write()
