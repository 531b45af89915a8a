"""Merge the files and metadata that several ranks contribute to one checkpoint. Pure functions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

Listing = Sequence[str]
"""Relative paths that one rank offers; directories end in a slash."""


def merge_metadata(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the merged metadata of all ranks.

    Dicts are merged and equal values collapse; a conflict raises RuntimeError.
    """
    conflicts: dict[str, list[int]] = {}
    merged = _merge([(rank, part) for rank, part in enumerate(parts)], "", conflicts)
    # All conflicts at once, so that the user need not run the program once for each.
    if conflicts:
        listed = "; ".join(f"{key!r} from ranks {ranks}" for key, ranks in sorted(conflicts.items()))
        raise RuntimeError(f"the ranks gave different checkpoint metadata: {listed}")
    return merged


def _merge(parts: list[tuple[int, Mapping[str, Any]]], prefix: str, conflicts: dict[str, list[int]]) -> dict[str, Any]:
    """Merge dicts recursively; collect the keys whose values differ in `conflicts`."""
    merged: dict[str, Any] = {}
    # In the order of the ranks, so that the merged metadata does not depend on hashing.
    for key in dict.fromkeys(key for _, part in parts for key in part):
        given = [(rank, part[key]) for rank, part in parts if key in part]
        if all(isinstance(value, Mapping) for _, value in given):
            merged[key] = _merge(given, f"{prefix}{key}/", conflicts)
        elif any(isinstance(value, Mapping) for _, value in given) or any(value != given[0][1] for _, value in given):
            conflicts[prefix + key] = [rank for rank, _ in given]
        else:
            merged[key] = given[0][1]
    return merged


def first_of_each(keys: Sequence[Hashable | None]) -> list[bool]:
    """Return, for each rank, whether it is the lowest rank with its key; a rank without a key (None) always is."""
    seen: set[Hashable] = set()
    first = []
    for key in keys:
        first.append(key is None or key not in seen)
        seen.add(key)
    return first


def shared_files(listings: Sequence[Listing]) -> set[str]:
    """Return the files that more than one rank contributes: only their contents must be compared."""
    seen: set[str] = set()
    shared: set[str] = set()
    for listing in listings:
        files = {name for name in listing if not name.endswith("/")}
        shared |= files & seen
        seen |= files
    return shared


def assign(listings: Sequence[Listing], digests: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """Return the paths that each rank uploads: every path once, by the lowest rank that has it.

    `digests` holds each rank's digests of its shared files. Different contents under one name, or a file on one rank
    and a directory of the same name on another, raise RuntimeError.
    """
    owners: dict[str, list[int]] = {}
    for rank, listing in enumerate(listings):
        for name in listing:
            owners.setdefault(name, []).append(rank)
    conflicts: dict[str, list[int]] = {}
    for name, ranks in owners.items():
        # A file of one rank has no digest, and a single value cannot conflict.
        if not name.endswith("/") and len({digests[rank].get(name) for rank in ranks}) > 1:
            conflicts[name] = ranks
        for rank in owners.get(name + "/", []):
            conflicts.setdefault(name, list(ranks)).append(rank)
    if conflicts:
        listed = "; ".join(f"{name!r} from ranks {sorted(set(r))}" for name, r in sorted(conflicts.items()))
        raise RuntimeError(f"the ranks gave different checkpoint files under the same name: {listed}")
    return [[name for name in listing if owners[name][0] == rank] for rank, listing in enumerate(listings)]
