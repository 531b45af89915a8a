"""Counts with their nouns, and that every message uses them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from determined.sentences import counted

SOURCE = Path(__file__).resolve().parents[1] / "src" / "determined"
_NOUNS = [
    "attempts",
    "batches",
    "checkpoints",
    "columns",
    "epochs",
    "experiments",
    "files",
    "GPUs",
    "labels",
    "lines",
    "metrics",
    "mistakes",
    "models",
    "outputs",
    "processes",
    "records",
    "reports",
    "rows",
    "runners",
    "runs",
    "slots",
    "times",
    "trials",
    "versions",
]
# Numbers that are never 1: limits, and counts that a message contains only from some number on.
_NEVER_ONE = {
    ("cli/experiment/views/description.py", "trials"),
    ("cli/tensorboard/start.py", "trials"),
    ("user_code/snapshot.py", "files"),
    ("core/output_capture/output_limit.py", "lines"),
    ("engines/slots.py", "slots"),
    ("experiment/code/directories.py", "files"),
    ("experiment/runner/trials/exit_classification.py", "times"),
    ("experiment/runner/fail_fast.py", "trials"),
    ("experiment/moving/archive.py", "files"),
    ("experiment/moving/unpacking.py", "files"),
    ("user_code/copy.py", "files"),
    ("web/api/code.py", "files"),
    ("web/api/compare.py", "experiments"),
    ("web/identifiers.py", "trials"),
}


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 trials"), (1, "1 trial"), (2, "2 trials"), (1200, "1,200 trials")]
)
def test_a_count(number: int, shown: str) -> None:
    assert counted(number, "trial") == shown


def test_other_plurals() -> None:
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(3, "batch", "batches") == "3 batches"
    assert counted(1, "experiment waits", "experiments wait") == "1 experiment waits"


def test_every_count_of_a_message_uses_it() -> None:
    """A number in a text followed by a plural, or a plural chosen by a condition, is wrong for 1."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.JoinedStr):
                continue
            for before, after in zip(node.values, node.values[1:], strict=False):
                if not isinstance(before, ast.FormattedValue) or not isinstance(after, ast.Constant):
                    continue
                first = str(after.value).removeprefix(" ").partition(" ")[0].rstrip(",.;:)")
                number = str(after.value).startswith(" ") and first in _NOUNS and _is_number(before.value)
                if number and (name, first) not in _NEVER_ONE:
                    found.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
            for value in node.values:
                if isinstance(value, ast.FormattedValue) and ast.unparse(value.value).endswith("== 1 else 's'"):
                    found.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    assert found == []


def _is_number(value: ast.expr) -> bool:
    """Return whether a value in a text may be a count: not a name, and not text that was made there."""
    words = ast.unparse(value).lower()
    texts = ("counted(", "place", "name", "path", "kind", "what", "directory", "hook", "uuid", "socket", "pid")
    return not isinstance(value, ast.Constant) and not any(word in words for word in texts)
