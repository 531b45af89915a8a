"""Check the packages that this one depends on, required and optional, according to its metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version

from determined.cli.doctor.result import Result, missing, ok, problem

_PACKAGE = "determined-pytorch"
_REQUIREMENT = re.compile(r"\s*(?P<name>[\w.-]+)(\[[^]]*\])?\s*(>=\s*(?P<oldest>[\w.]+))?[^;]*(;(?P<marker>.*))?$")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
# Extras for the development of this library, which users do not need.
_FOR_DEVELOPERS = ("dev", "bench")


@dataclass(frozen=True)
class Requirement:
    """A package, its minimum version, and the extra that requires it, or None."""

    name: str
    oldest: str
    extra: str | None


def check_packages() -> Iterator[Result]:
    """Check required packages and extras against the metadata of the installed package."""
    try:
        found = distribution(_PACKAGE)
    except PackageNotFoundError:
        advice = f"pip install {_PACKAGE}, so that dependencies and extras are known"
        yield problem("packages", f"{_PACKAGE} is not installed, but imported from its source directory", advice)
        return
    requirements = [read for read in map(_read, found.requires or []) if read is not None]
    yield _core([requirement for requirement in requirements if requirement.extra is None])
    for extra in found.metadata.get_all("Provides-Extra") or []:
        if extra not in _FOR_DEVELOPERS:
            yield _extra(extra, [requirement for requirement in requirements if requirement.extra == extra])


def _core(requirements: list[Requirement]) -> Result:
    """Check the packages that are always required."""
    lacking = [text for text in map(_unmet_requirement, requirements) if text is not None]
    if lacking:
        advice = f"pip install --upgrade {_PACKAGE}"
        return problem("packages", "; ".join(lacking), advice, needed=True)
    return ok("packages", f"all {len(requirements)} required packages")


def _extra(name: str, requirements: list[Requirement]) -> Result:
    """Check the packages of an extra."""
    lacking = [text for text in map(_unmet_requirement, requirements) if text is not None]
    if lacking:
        return missing(f"extra {name}", "; ".join(lacking), f'pip install "{_PACKAGE}[{name}]"')
    return ok(f"extra {name}", ", ".join(f"{each.name} {version(each.name)}" for each in requirements))


def _unmet_requirement(requirement: Requirement) -> str | None:
    """Return how a requirement is not met, or None if it is."""
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if _numbers(found) < _numbers(requirement.oldest):
        return f"{requirement.name} is {found}, older than {requirement.oldest}"
    return None


def _read(line: str) -> Requirement | None:
    """Parse a requirement of the package's metadata; None if it has another form."""
    found = _REQUIREMENT.match(line)
    if found is None:
        return None
    extra = _EXTRA.search(found["marker"] or "")
    return Requirement(found["name"], found["oldest"] or "0", None if extra is None else extra[1])


def _numbers(text: str) -> tuple[int, ...]:
    # Three parts are enough to compare releases; a local part such as +cu121 does not count.
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0])[:3])
