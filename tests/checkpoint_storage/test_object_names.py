"""Names of objects: every tree is restored as it was, and no name refers to another directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.checkpoint_storage import object_names
from determined.errors import InvalidCheckpointException

PARTS = st.sampled_from(["a", "b", "empty", "c.d", ".empty-directory", "é"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(PATHS, st.integers(1, 9)), st.lists(PATHS))
def test_a_tree_comes_back(files: dict[str, int], directories: list[str]) -> None:
    tree: dict[str, int] = {}
    for path, size in [*files.items(), *[(f"{path}/", 0) for path in directories]]:
        parts = path.rstrip("/").split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        if any(name in tree for name in above) or f"{path.rstrip('/')}/" in tree or path.rstrip("/") in tree:
            continue  # a tree cannot contain a file and a directory of the same name
        tree.update({f"{name}/": 0 for name in above})
        tree[path] = size
    stored = {object_names.object_name(name): tree[name] for name in object_names.to_store(tree)}
    assert object_names.to_resources(stored) == tree


def test_only_files_and_empty_directories_are_stored() -> None:
    assert object_names.to_store(["a/", "a/b/", "a/b/c", "d/", "e"]) == ["a/b/c", "d/", "e"]


def test_an_empty_object_above_others_is_a_directory() -> None:
    assert object_names.to_resources({"code": 0, "code/x.py": 3}) == {"code/": 0, "code/x.py": 3}


def test_order_is_that_of_a_walk() -> None:
    assert list(object_names.to_resources({"b": 1, "a-": 1, "a/x": 1, "a.c": 1})) == ["a/", "a/x", "a-", "a.c", "b"]


@pytest.mark.parametrize("name", ["a", "a/b", "a/", "...", "a..b", " ", "ü", "a:b", "-rf"])
def test_names_that_stay_inside(name: str) -> None:
    object_names.check(name, "checkpoint one")


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/../b", "a/..", "/a", "//a", "", ".", "a//b", "a/./b", "a\0b", "..\\x", "c:\\x", "a\nb"]
)
def test_names_that_may_lead_outside_are_refused(name: str) -> None:
    with pytest.raises(InvalidCheckpointException, match="checkpoint one"):
        object_names.check(name, "checkpoint one")
