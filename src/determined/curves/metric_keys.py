"""Keys of metrics: the group and the name as one text, separated by the first slash; which of them a chart draws."""

from __future__ import annotations

from collections.abc import Sequence

Key = tuple[str, str]


def join(group: str, name: str) -> str:
    """Return the key of a metric. A slash in the group is escaped; the name may contain anything."""
    return f"{group.replace('%', '%25').replace('/', '%2F')}/{name}"


def split(key: str) -> Key:
    """Return the group and the name of a metric."""
    group, _, name = key.partition("/")
    return group.replace("%2F", "/").replace("%25", "%"), name


def named(name: str | None, keys: Sequence[str]) -> str | None:
    """Return the key of the metric that a user names; None if there is none.

    The name is a key, else that of a validation metric, else that of a metric in another group. `chosenMetric` in
    `page/src/pages/experiment/curves.tsx` chooses the same one.
    """
    if name is None:
        return None
    exact = [key for key in (name, f"validation/{name}") if key in keys]
    return next(iter(exact or [key for key in keys if key.endswith(f"/{name}")]), None)


def first_drawn(searcher_metric: str | None, keys: Sequence[str]) -> str | None:
    """Return the metric that a chart draws by default: the searcher's, else one of the validation."""
    validation = [key for key in keys if key.startswith("validation/")]
    return named(searcher_metric, keys) or next(iter([*validation, *keys]), None)
