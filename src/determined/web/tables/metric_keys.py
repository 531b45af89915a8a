"""Keys of metrics: the group and the name as one text, separated by the first slash."""

from __future__ import annotations

Key = tuple[str, str]


def join(group: str, name: str) -> str:
    """Return the key of a metric. A slash in the group is escaped; the name may contain anything."""
    return f"{group.replace('%', '%25').replace('/', '%2F')}/{name}"


def split(key: str) -> Key:
    """Return the group and the name of a metric."""
    group, _, name = key.partition("/")
    return group.replace("%2F", "/").replace("%25", "%"), name
