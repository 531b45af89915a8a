"""Sort what was found: by a value that may be missing or no number, which come last in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from determined.experimental.enums import OrderBy

T = TypeVar("T")


def in_order(items: Iterable[T], value_of: Callable[[T], Any], order_by: OrderBy) -> list[T]:
    """Of equal ones the order stays."""
    with_value: list[tuple[Any, T]] = []
    without: list[tuple[Any, T]] = []
    for item in items:
        value = value_of(item)
        missing = value is None or (isinstance(value, float) and not math.isfinite(value))
        (without if missing else with_value).append((value, item))
    with_value.sort(key=lambda pair: pair[0], reverse=order_by is OrderBy.DESC)
    return [item for _, item in [*with_value, *without]]


def first(items: list[T], argument: str, count: int | None) -> list[T]:
    """At most so many, all for None; below 0 a slice would take away from the end."""
    if count is not None and count < 0:
        raise ValueError(f"{argument} must be 0 or more, got {count}")
    return items[:count]
