"""Merging the parts of several ranks: pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from determined.core.checkpoints.shards import assign, first_of_each, merge_metadata, shared_files


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"c": 1}}, {"a": {"d": 2}}, {"a": {"c": 1, "d": 2}}),
        ({"a": [1]}, {"a": [1]}, {"a": [1]}),
        ({"a": {}}, {"a": {"b": {"c": None}}}, {"a": {"b": {"c": None}}}),
        ({}, {}, {}),
    ],
)
def test_metadata_that_fits(first: dict[str, Any], second: dict[str, Any], merged: dict[str, Any]) -> None:
    assert merge_metadata([first, second]) == merged
    assert merge_metadata([second, {}, first]) == merged


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        ({"a": [1]}, {"a": [2]}, "'a'"),
        ({"a": {"c": 1}}, {"a": 1}, "'a'"),
        ({"a": {"c": {"d": 1}}}, {"a": {"c": {"d": 2}}}, "'a/c/d'"),
    ],
)
def test_metadata_that_does_not_fit(first: dict[str, Any], second: dict[str, Any], key: str) -> None:
    with pytest.raises(RuntimeError, match=rf"{key} from ranks \[0, 2\]"):
        merge_metadata([first, {}, second])


def test_the_lowest_rank_stands_for_equal_keys() -> None:
    assert first_of_each([(0, 1), (0, 1), None, None, (1, 1), (0, 1)]) == [True, False, True, True, True, False]


def test_shared_files_are_those_of_several_ranks() -> None:
    assert shared_files([["d/", "d/a", "b"], ["d/", "b"], ["c", "d/a"]]) == {"b", "d/a"}


def test_every_path_is_uploaded_once() -> None:
    listings = [["d/", "d/a"], ["d/", "d/b", "same"], ["same", "e/"]]
    digests = [{}, {"same": "1"}, {"same": "1"}]
    assert assign(listings, digests) == [["d/", "d/a"], ["d/b", "same"], ["e/"]]


def test_different_contents_and_a_file_against_a_directory_are_conflicts() -> None:
    with pytest.raises(RuntimeError, match=r"'x' from ranks \[0, 2\]"):
        assign([["x"], [], ["x"]], [{"x": "1"}, {}, {"x": "2"}])
    with pytest.raises(RuntimeError, match=r"'x' from ranks \[0, 1\]"):
        assign([["x/"], ["x"]], [{}, {}])
