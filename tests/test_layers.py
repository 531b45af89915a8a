"""The imports follow the table in ARCHITECTURE.md, and the light entry points stay light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "determined"

# The public list is not in the table: it may import what it exports, and packages from pytorch on may import it.
PUBLIC_LIST = "__init__"

# Imports against the table that are intended: inside a function, or for types only.
DOWNWARD_WHEN_CALLED = {("core", "tensorboard")}  # the table says so, too


def read_rows() -> list[tuple[list[str], str]]:
    """Return the rows of the table: packages, and what they may import."""
    rows: list[tuple[list[str], str]] = []
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`"):
            names = re.findall(r"`([\w/.]+)`", cells[0])
            rows.append(([name.removesuffix("/").removesuffix(".py") for name in names], cells[2]))
    return rows


def read_table() -> dict[str, set[str]]:
    """Return each package with the packages that it may import, from the table."""
    rows = read_rows()
    allowed: dict[str, set[str]] = {}
    for position, (packages, rule) in enumerate(rows):
        above = [package for row, _ in rows[:position] for package in row]
        for package in packages:
            allowed[package] = _permitted(rule, above, [name for row, _ in rows for name in row]) | set(packages)
    return allowed


def _permitted(rule: str, above: list[str], everything: list[str]) -> set[str]:
    if rule.startswith("nothing"):
        return set()
    if rule.startswith("everything,"):
        return {*everything, PUBLIC_LIST}
    if rule.endswith("above"):
        return {*above, PUBLIC_LIST} if "pytorch" in above or "trial" in above else set(above)
    named = named_in(rule)
    assert named <= set(above), f"the table allows {named - set(above)}, which is not above"
    return named | {"errors"}


def named_in(rule: str) -> set[str]:
    """Return the packages that a rule allows by their names; a rule about all packages above names none."""
    if rule.startswith(("nothing", "everything,")) or rule.endswith("above"):
        return set()
    return {word.strip() for word in rule.partition(";")[0].split(",")}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Return our packages that a file imports, with the line, and whether only when called or for types."""
    tree = ast.parse(path.read_text())
    at_import = set(map(id, _run_at_import(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "determined" else [base]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "determined":
                known = len(parts) > 1 and ((SOURCE / parts[1]).is_dir() or (SOURCE / f"{parts[1]}.py").exists())
                yield (parts[1] if known else PUBLIC_LIST), node.lineno, id(node) not in at_import


def _run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _run_at_import(child)


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_the_table_lists_every_package() -> None:
    packages = {package_of(path) for path in source_files()} - {PUBLIC_LIST}
    assert packages == set(read_table())


def test_imports_point_up_the_table() -> None:
    allowed = read_table()
    wrong = []
    for path in source_files():
        package = package_of(path)
        if package == PUBLIC_LIST or package not in allowed:
            continue
        for imported, line, when_called in imported_packages(path):
            if imported in allowed[package] or imported == package:
                continue
            if when_called and (package, imported) in DOWNWARD_WHEN_CALLED:
                continue
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {package} imports {imported}")
    assert wrong == []


def test_the_table_allows_no_import_that_does_not_exist() -> None:
    imported: dict[str, set[str]] = {}
    for path in source_files():
        imported.setdefault(package_of(path), set()).update(name for name, _, _ in imported_packages(path))
    unused = {
        ", ".join(packages): named_in(rule) - set[str]().union(*(imported.get(package, set()) for package in packages))
        for packages, rule in read_rows()
    }
    assert {packages: names for packages, names in unused.items() if names} == {}


def test_torch_is_imported_at_import_by_one_package_only() -> None:
    wrong = []
    for path in source_files():
        if package_of(path) == "pytorch":
            continue
        for node in _run_at_import(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            wrong += [f"{path}: {name}" for name in names if name.split(".")[0] == "torch"]
    assert wrong == []


def test_the_server_of_the_page_is_imported_by_its_command_only_and_its_packages_by_the_server_only() -> None:
    wrong = []
    for path in source_files():
        place = path.relative_to(SOURCE).as_posix()
        if place != "cli/ui.py" and package_of(path) != "web":
            wrong += [f"{place}:{line}" for package, line, _ in imported_packages(path) if package == "web"]
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            packages = {name.split(".")[0] for name in names} & {"fastapi", "starlette", "uvicorn", "anyio"}
            wrong += [f"{place}: {name}" for name in packages if package_of(path) != "web"]
    assert wrong == []


def test_the_server_of_the_page_loads_no_torch() -> None:
    program = "import sys, determined.web.serve\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "import determined",
        "import determined.core",
        "import determined.core, determined.core.initialize, determined.trial, determined.config",
        "from determined import core\nwith core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as c:\n"
        "    c.train.report_training_metrics(1, {'a': 1.0})",
        "from click.testing import CliRunner\nfrom determined.cli.main import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0",
    ],
)
def test_light_entry_points_load_neither_torch_nor_numpy(program: str) -> None:
    heavy = {"torch", "numpy", "psutil", "fastapi", "uvicorn", "orjson"}
    check = f"\nimport sys\nheavy = {heavy} & set(sys.modules)\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
