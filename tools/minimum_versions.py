"""Print constraints for pip: the lowest versions that pyproject.toml declares, as `make test-minimum` installs them.

Development tools are pinned as in constraints.txt, because their minimum versions do not matter. torch is not included:
the tests use the installed build.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_OF_DEVELOPERS = ("dev", "bench")
_LEFT_OUT = ("torch",)
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?>=(?P<lowest>[0-9][0-9A-Za-z.]*)")


def lowest_versions() -> dict[str, str]:
    """Return, by package, the lowest version that the library and its extras accept."""
    lowest: dict[str, str] = {}
    for name, version in _requirements(lambda extra: extra not in _OF_DEVELOPERS):
        if lowest.setdefault(name, version) != version:
            raise ValueError(f"pyproject.toml: {name} has two lowest versions, {lowest[name]} and {version}")
    return {name: version for name, version in lowest.items() if name not in _LEFT_OUT}


def pinned_tools() -> dict[str, str]:
    """Return the pins of constraints.txt for packages that only developers need."""
    tools = {name for name, _ in _requirements(lambda extra: extra == "dev")} - lowest_versions().keys()
    pins = dict(line.split("==") for line in (_ROOT / "constraints.txt").read_text().split())
    return {name: pins[name] for name in sorted(tools)}


def extras() -> list[str]:
    """Return the names of the extras that users install."""
    return [name for name in _project()["optional-dependencies"] if name not in _OF_DEVELOPERS]


def _requirements(wanted: Any) -> Iterator[tuple[str, str]]:
    project = _project()
    chosen = [lines for extra, lines in project["optional-dependencies"].items() if wanted(extra)]
    for line in [*project["dependencies"], *(line for lines in chosen for line in lines)]:
        found = _REQUIREMENT.fullmatch(line)
        if found is None:
            raise ValueError(f"pyproject.toml: {line!r} must have the form name>=version")
        yield found["name"], found["lowest"]


def _project() -> Any:
    return tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]


if __name__ == "__main__":
    versions = lowest_versions() | pinned_tools()
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in versions.items())
