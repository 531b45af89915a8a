"""Sort trials and checkpoints by a metric: best first, and among equal values the oldest first.

Summaries, lists, downloads, the SDK and the retention of checkpoints all use it. With separate rules for equal values,
"the best trial" of a search in which several trials reach the same accuracy would differ between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from determined.config.metric_values import finite_number, is_finite

T = TypeVar("T")


def best_first(
    items: Iterable[T], value_of: Callable[[T], Any], age_of: Callable[[T], Any], *, smaller_is_better: bool
) -> list[T]:
    """Return the items whose value is a finite number, best first.

    NaN, infinities and texts cannot be compared, so their items are left out.
    """
    comparable, _ = _split(items, lambda item: finite_number(value_of(item)), age_of, descending=not smaller_is_better)
    return comparable


def ranked(
    items: Iterable[T], value_of: Callable[[T], Any], age_of: Callable[[T], Any], *, smaller_is_better: bool
) -> list[T]:
    """Return all items: first as `best_first`, then those without a finite value, oldest first."""
    return in_order(items, lambda item: finite_number(value_of(item)), age_of, descending=not smaller_is_better)


def in_order(
    items: Iterable[T], value_of: Callable[[T], Any], age_of: Callable[[T], Any], *, descending: bool
) -> list[T]:
    """Return all items sorted by values of any type; those without a finite value come last in both directions.

    `age_of` returns a number that grows with time, such as an id. Among items with the same value the oldest, with the
    smallest number, comes first, also in descending order.
    """
    with_value, without = _split(items, value_of, age_of, descending=descending)
    return with_value + without


def _split(
    items: Iterable[T], value_of: Callable[[T], Any], age_of: Callable[[T], Any], *, descending: bool
) -> tuple[list[T], list[T]]:
    """Return the items with a value, sorted, and those whose value is None, NaN or infinite."""
    with_value: list[tuple[Any, T]] = []
    without: list[T] = []
    for item in sorted(items, key=age_of):
        value = value_of(item)
        # Values of other types, such as texts in `in_order`, are compared as they are.
        if value is None or (isinstance(value, float) and not is_finite(value)):
            without.append(item)
        else:
            with_value.append((value, item))
    with_value.sort(key=lambda pair: pair[0], reverse=descending)  # stable, so equal values stay oldest first
    return [item for _, item in with_value], without
