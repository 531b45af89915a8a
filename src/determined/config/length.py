"""Training lengths and periods: a number of batches, records or epochs, or a number without a unit."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from determined.errors import InvalidConfigurationException

LengthUnit = Literal["batches", "records", "epochs"]


class Length(NamedTuple):
    """A training length. `unit` is None for a number without a unit."""

    value: int
    unit: LengthUnit | None = None

    def plain(self) -> int | dict[str, int]:
        """Return the length as it is written in a configuration."""
        return self.value if self.unit is None else {self.unit: self.value}


def parse_length(value: Any, where: str = "length") -> Length:
    """Parse `{batches: N}`, `{records: N}`, `{epochs: N}` or an integer from 0 on. Errors contain `where`."""
    length = read_length(value)
    if length is None:
        raise InvalidConfigurationException(
            message=f"{where}: expected exactly one of batches, records, epochs with a whole number from 0 on, "
            f"for example {{batches: 100}}, got {value!r}"
        )
    return length


def read_length(value: Any) -> Length | None:
    """Return the length that a value of a configuration represents, or None."""
    if _is_count(value):
        return Length(value)
    if isinstance(value, dict) and len(value) == 1:
        (unit, count), *_ = value.items()
        if unit in get_args(LengthUnit) and _is_count(count):
            return Length(count, unit)
    return None


def _is_count(value: Any) -> bool:
    # A bool is an integer in Python.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
