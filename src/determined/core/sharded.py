"""How the parts that several ranks contribute to one checkpoint become a whole: pure functions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

Listing = Sequence[str]
"""Relative paths that one rank offers; directories end in a slash."""


def merge_metadata(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One dict of all ranks' dicts: maps merge, equal leaves collapse, anything else is a conflict."""
    conflicts: dict[str, list[int]] = {}
    merged = _merge([(rank, part) for rank, part in enumerate(parts)], "", conflicts)
    if conflicts:
        listed = "; ".join(f"{key!r} from ranks {ranks}" for key, ranks in sorted(conflicts.items()))
        raise RuntimeError(f"the ranks gave different checkpoint metadata: {listed}")
    return merged


def _merge(parts: list[tuple[int, Mapping[str, Any]]], prefix: str, conflicts: dict[str, list[int]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
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
    """Which ranks are the lowest with their key; a rank without a key (None) stands for itself."""
    seen: set[Hashable] = set()
    first = []
    for key in keys:
        first.append(key is None or key not in seen)
        seen.add(key)
    return first


def shared_files(listings: Sequence[Listing]) -> set[str]:
    """The files that more than one rank offers: only they must be compared."""
    seen: set[str] = set()
    shared: set[str] = set()
    for listing in listings:
        files = {name for name in listing if not name.endswith("/")}
        shared |= files & seen
        seen |= files
    return shared


def assign(listings: Sequence[Listing], digests: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """What each rank shall upload: every path once, by the lowest rank that offers it.

    `digests` holds each rank's digest of its shared files. Different contents under one name, and a file on
    one rank against a directory on another, are conflicts.
    """
    owners: dict[str, list[int]] = {}
    for rank, listing in enumerate(listings):
        for name in listing:
            owners.setdefault(name, []).append(rank)
    conflicts: dict[str, list[int]] = {}
    for name, ranks in owners.items():
        if not name.endswith("/") and len({digests[rank].get(name) for rank in ranks}) > 1:
            conflicts[name] = ranks
        for rank in owners.get(name + "/", []):
            conflicts.setdefault(name, list(ranks)).append(rank)
    if conflicts:
        listed = "; ".join(f"{name!r} from ranks {sorted(set(r))}" for name, r in sorted(conflicts.items()))
        raise RuntimeError(f"the ranks gave different checkpoint files under the same name: {listed}")
    return [[name for name in listing if owners[name][0] == rank] for rank, listing in enumerate(listings)]
