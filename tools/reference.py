"""Write docs/reference/ from signatures and docstrings: `make reference`."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tools import surface
from tools.commands import commands_page
from tools.fields import fields_page

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "reference"
_WIDE = 100  # width of a signature above which each argument gets a separate line


@dataclasses.dataclass(frozen=True)
class Page:
    """A reference page about one module."""

    file: str
    module: str
    about: str


PAGES = (
    Page("determined.md", "determined", "Information about the current run, and the version."),
    Page("pytorch.md", "determined.pytorch", "Trials, the Trainer, data, callbacks, reducers."),
    Page("samplers.md", "determined.pytorch.samplers", "Samplers that shuffle, repeat, shard and skip."),
    Page("batch-inference.md", "determined.pytorch.experimental", "Process a data set once, on all ranks."),
    Page("core.md", "determined.core", "Metrics, checkpoints, ranks and requests for custom training loops."),
    Page("client.md", "determined.experimental.client", "The Python SDK."),
    Page("experimental.md", "determined.experimental", "The same classes, and a quick test of a trial."),
    Page("core-v2.md", "determined.experimental.core_v2", "Any Python process as a run."),
    Page("errors.md", "determined.errors", "The exceptions of this library."),
)


def pages() -> dict[str, str]:
    """Return the text of every page, by file name."""
    written = {page.file: _module_page(page) for page in PAGES}
    return written | {"det.md": commands_page(), "configuration.md": fields_page(), "index.md": _index()}


def write() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for old in DIRECTORY.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (DIRECTORY / name).write_text(text)


def _index() -> str:
    lines = ["# Reference", "", "Written by `make reference` from the docstrings of the library.", ""]
    lines += [f"- [`{page.module}`]({page.file}): {page.about}" for page in PAGES]
    lines += ["- [`det`](det.md): every command, its arguments and options."]
    lines += ["- [Configurations](configuration.md): every field, its values and its default.", ""]
    lines += ["Names of older releases are in the [API table](../api-table.md).", ""]
    return "\n".join(lines)


def _module_page(page: Page) -> str:
    owner = surface.owners()
    lines = [f"# `{page.module}`", "", _prose(importlib.import_module(page.module)), ""]
    for name, value in surface.public_names(page.module).items():
        full = f"{page.module}.{name}"
        described_as = owner.get(id(value))
        lines += [f"## `{name}`", ""]
        if described_as is None:
            lines += [f"The text `{value}`." if isinstance(value, str) else "A name for annotations.", ""]
        elif described_as != full:
            lines += [f"The same as {_link(described_as)}.", ""]
        elif inspect.isclass(value):
            lines += _class(name, value, owner)
        else:
            lines += _function(name, value)
    return "\n".join(lines)


def _class(name: str, cls: type[Any], owner: dict[int, str]) -> Iterator[str]:
    yield from [*_fenced(f"class {name}{_constructor(cls)}"), _prose(cls), ""]
    bases = [owner[id(base)] for base in cls.__bases__ if id(base) in owner]
    if bases:
        yield from [f"Has the members of {', '.join(map(_link, bases))} as well.", ""]
    if issubclass(cls, enum.Enum):
        yield from [", ".join(f"`{member.name}`" for member in cls), ""]
        return
    found = surface.members(cls)
    inner = {key for key, value in found.items() if inspect.isclass(value) and value.__qualname__ == f"{name}.{key}"}
    values = {key: value for key, value in found.items() if key not in inner and _is_value(value)}
    made = {key: f"`{kind}`".replace("|", "\\|") if kind else "" for key, kind in surface.made_attributes(cls).items()}
    attributes = made | {key: _value_text(value) for key, value in values.items()}
    if attributes:
        yield from ["| attribute | |", "|---|---|"]
        yield from (f"| `{key}` | {text} |" for key, text in attributes.items())
        yield ""
    for key, value in found.items():
        if key in inner:
            yield from [f"### `{name}.{key}`", "", _prose(value), ""]
            if issubclass(value, enum.Enum):
                yield from [", ".join(f"`{member.name}`" for member in value), ""]
        elif key not in values:
            yield f"### `{name}.{key}`"
            yield ""
            yield from _function(key, _bare(value))


def _function(name: str, function: Any) -> list[str]:
    return [*_fenced(f"{name}{signature(function)}"), _prose(function), ""]


def signature(function: Any) -> str:
    """Return a signature as in the source; if it is long, with one argument per line."""
    described = inspect.signature(function)
    arguments = [_argument(one) for one in described.parameters.values() if _is_shown(one)]
    kinds = [one.kind.name for one in described.parameters.values() if _is_shown(one)]
    if "KEYWORD_ONLY" in kinds and "VAR_POSITIONAL" not in kinds:
        arguments.insert(kinds.index("KEYWORD_ONLY"), "*")
    result = described.return_annotation
    returned = "" if result in (inspect.Signature.empty, "None", None) else f" -> {_annotation(result)}"
    line = f"({', '.join(arguments)}){returned}"
    if len(line) <= _WIDE:
        return line
    return "(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returned}"


def _is_shown(parameter: inspect.Parameter) -> bool:
    return parameter.name not in ("self", "cls") and not parameter.name.startswith("_")


def _constructor(cls: type[Any]) -> str:
    if issubclass(cls, (enum.Enum, BaseException)) or cls.__init__ is object.__init__:
        return ""
    return re.sub(r" -> .*$", "", signature(cls.__init__), flags=re.DOTALL)


def _argument(parameter: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    text = f"{stars.get(parameter.kind.name, '')}{parameter.name}"
    annotated = parameter.annotation is not inspect.Parameter.empty
    if annotated:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        text += f"{' = ' if annotated else '='}{_default(parameter.default)}"
    return text


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return "..." if re.search(r" at 0x|<factory>", text) else text


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else _type_name(annotation)


def _type_name(annotation: Any) -> str:
    return annotation.__qualname__ if inspect.isclass(annotation) else str(annotation).replace("typing.", "")


def _is_value(member: Any) -> bool:
    """Return the lines about an attribute: a property, a field of a dataclass, or a value of the class."""
    return isinstance(member, cached_property) or not inspect.isroutine(_bare(member))


def _bare(member: Any) -> Any:
    return member.__func__ if isinstance(member, (classmethod, staticmethod)) else member


def _value_text(member: Any) -> str:
    if isinstance(member, dataclasses.Field):
        return f"`{_annotation(member.type)}`".replace("|", "\\|")
    if isinstance(member, (property, cached_property)):
        getter = member.func if isinstance(member, cached_property) else member.fget
        kind = inspect.signature(getter).return_annotation if getter else ""
        about = " ".join((inspect.getdoc(member) or "").split())
        return f"`{_annotation(kind)}` {about}".replace("|", "\\|").rstrip()
    return f"`{_type_name(member)}`" if inspect.isclass(member) else ""


def _fenced(code: str) -> list[str]:
    return ["```text", code, "```", ""]


def _prose(described: Any) -> str:
    """Return a docstring as Markdown; the list of arguments becomes a Markdown list."""
    if inspect.isclass(described) and dataclasses.is_dataclass(described) and _is_made(described):
        return ""
    text = inspect.getdoc(described) or ""
    before, found, after = text.partition("\nArgs:\n")
    if not found:
        return text
    items, rest = [], []
    for line in after.split("\n"):
        if argument := re.match(r"    (\*{0,2}\w+): (.*)", line):
            items.append(f"- `{argument[1]}`: {argument[2]}")
        elif line.startswith("        ") and items:
            items.append(f"  {line.strip()}")
        else:
            rest.append(line)
    return "\n".join([before.rstrip(), "", *items, *rest]).rstrip()


def _is_made(cls: type[Any]) -> bool:
    """Return whether the docstring was generated by `dataclass` from the signature."""
    return (cls.__doc__ or "").startswith(f"{cls.__name__}(")


def _link(full: str) -> str:
    module, _, name = full.rpartition(".")
    file = next(page.file for page in PAGES if page.module == module)
    return f"[`{full}`]({file}#{name.lower()})"


if __name__ == "__main__":
    write()
