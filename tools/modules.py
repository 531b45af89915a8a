"""Write docs/modules.md, the list of all modules with their purpose, from their docstrings: `make reference`."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "determined"
PAGE = ROOT / "docs" / "modules.md"

_HEAD = """# Modules

Every module of `src/determined` and the first line of its docstring. How the packages depend on each other, and the
main flows: [ARCHITECTURE.md](../ARCHITECTURE.md). This page is written by `make reference`.
"""


def page() -> str:
    folders: dict[str, list[str]] = defaultdict(list)
    titles = {}
    for path in sorted(SOURCE.rglob("*.py")):
        folder = path.parent.relative_to(SOURCE).as_posix()
        line = _first_line(path)
        if path.name == "__init__.py":
            titles[folder] = line
        else:
            folders[folder].append(f"| `{path.name}` | {line} |")
    parts = [_HEAD]
    for folder, rows in sorted(folders.items()):
        name = "determined/" if folder == "." else f"determined/{folder}/"
        parts.append("\n".join([f"## `{name}`", titles[folder], "", "| module | purpose |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _first_line(path: Path) -> str:
    """Return the first paragraph of a module's docstring, as one line of a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
