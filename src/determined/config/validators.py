"""Validators of single values. Each one describes in its error what it expected.

They are the annotations of fields. Storage types use them as well, and workers, which do not validate, import these: so
pydantic is imported only when a model is made or a value is refused.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from determined.config.length import Length, read_length
from determined.config.metric_values import is_finite

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, PydanticCustomError

# The largest integer that databases and JSON parsers of other languages can represent.
_LARGEST = 2**63 - 1


class Check:
    """A function that returns the value of a field, or raises a `refusal`, as an annotation of the field."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Return pydantic's description of the validator; pydantic calls it when it makes the model."""
        from pydantic_core import core_schema

        # A plain validator, so that pydantic does not convert the value before: it would accept "1" as a number.
        return core_schema.no_info_plain_validator_function(self.function)


def refusal(expected: str, hint: str = "") -> PydanticCustomError:
    """Return the error of a validator. `error_messages.py` adds the path and the value."""
    from pydantic_core import PydanticCustomError

    # The message is made in `error_messages.py`, which knows the path and hides secrets.
    return PydanticCustomError("expected", "{expected}", {"expected": expected, "hint": hint})


def integer(minimum: int, maximum: int = _LARGEST, *, expected: str = "") -> Check:
    """Return a validator for integers in a range. 1e3 is accepted, true is not."""
    words = expected or f"a whole number from {minimum} " + ("on" if maximum == _LARGEST else f"to {maximum}")

    def check(value: Any) -> int:
        # YAML reads 1e3 as a float.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        # A bool is an integer in Python.
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise refusal(words)
        return value

    return Check(check)


def number(minimum: float = -math.inf, maximum: float = math.inf, *, above: float | None = None) -> Check:
    """Return a validator for finite numbers: between `minimum` and `maximum` inclusive, or greater than `above`."""
    words = "a number" + _bounds_in_words(minimum, maximum, above)

    def check(value: Any) -> float:
        if not is_finite(value) or not minimum <= value <= maximum or (above is not None and value <= above):
            raise refusal(words)
        return value  # type: ignore[no-any-return]  # an int stays one: 4 is shown as 4

    return Check(check)


def _bounds_in_words(minimum: float, maximum: float, above: float | None) -> str:
    """Return the bounds of a number for a message."""
    if above is not None:
        return f" above {above:g}"
    if math.isinf(minimum):
        return ""
    return f" from {minimum:g} " + ("on" if math.isinf(maximum) else f"to {maximum:g}")


def _flag(value: Any) -> bool:
    """Return a truth value; raise an error for anything else, such as a text."""
    if not isinstance(value, bool):
        hint = "YAML 1.2 knows only true and false" if value in ("yes", "no", "on", "off") else ""
        raise refusal("true or false", hint)
    return value


def _text(value: Any) -> str:
    """Return a text; raise an error for anything else."""
    if isinstance(value, (int, float)):
        raise refusal("a text", "put it in quotes")
    if not isinstance(value, str):
        raise refusal("a text")
    return value


def _filled_text(value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise refusal("a text that is not empty", "put it in quotes" if isinstance(value, (int, float)) else "")
    return value


def _absolute_path(value: Any) -> str:
    """Return an absolute path; raise an error for anything else."""
    if not isinstance(value, str) or not value:
        raise refusal("an absolute path, as /data/checkpoints")
    if not os.path.isabs(value):
        # A trial runs in a different working directory, where a relative path would mean another place.
        raise refusal("an absolute path", f"write {os.path.abspath(os.path.expanduser(value))}")
    return value


def choice(*names: str) -> Check:
    """Return a validator for one of these words."""
    expected = f"one of {', '.join(names)}"

    def check(value: Any) -> str:
        from difflib import get_close_matches

        if not isinstance(value, str) or value not in names:
            # 0.5 finds a word with a few wrong letters, and seldom an unrelated one.
            near = get_close_matches(value.lower(), names, n=1, cutoff=0.5) if isinstance(value, str) else []
            raise refusal(expected, f"did you mean {near[0]}?" if near else "")
        return value

    return Check(check)


def matching(pattern: str, expected: str) -> Check:
    """Return a validator for texts that match a regular expression completely."""
    compiled = re.compile(pattern)

    def check(value: Any) -> str:
        # `fullmatch`, because `match` would accept a text that only begins correctly.
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise refusal(expected)
        return value

    return Check(check)


def length(minimum: int, *, bare: bool = False) -> Check:
    """Return a validator for a number of batches, epochs or records; with `bare` also for a number without a unit."""
    expected = f"a length from {minimum} on, such as {{batches: 100}}, {{epochs: 2}} or {{records: 5000}}"

    def check(value: Any) -> Length:
        found = value if isinstance(value, Length) else read_length(value)
        if found is None or found.value < minimum or found.value > _LARGEST or (found.unit is None and not bare):
            raise refusal(expected + (", or a whole number without a unit" if bare else ""))
        return found

    return Check(check)


Flag = Annotated[bool, Check(_flag)]
Text = Annotated[str, Check(_text)]
FilledText = Annotated[str, Check(_filled_text)]
AbsolutePath = Annotated[str, Check(_absolute_path)]
Count = Annotated[int, integer(0)]
PositiveCount = Annotated[int, integer(1)]
