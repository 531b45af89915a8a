"""Adapt the user's methods to the argument order of the loop.

Signatures are inspected once before training, so that each batch costs a plain function call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def overridden(trial: Any, method: str, base: type) -> bool:
    """Return whether the trial defines a callable `method` that differs from the one of `base`."""
    # From the instance, not its class: programs also assign functions to attributes of a trial.
    function = getattr(trial, method, None)
    if not callable(function):
        return False
    return getattr(function, "__func__", function) is not getattr(base, method, None)


def bind(
    method: Callable[..., Any], arguments: Sequence[str], optional: str | None = None, *, any_names: bool = False
) -> Callable[..., Any]:
    """Return a function that takes `arguments` positionally in this order and calls `method` with them.

    Arguments are matched by name; the first one (the batch) and positional-only ones also by position. `optional` is
    dropped if the method has no parameter for it. With `any_names`, a method that uses none of the names and has
    the same number of parameters receives all arguments by position. Raises TypeError if the signature does not fit.
    """
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except ValueError:  # compiled functions have no signature to inspect
        return method
    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    only_positional = {p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY}
    keywords = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    takes_any_keyword = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    takes_any_position = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)

    wanted = list(arguments)
    if optional is not None:
        by_name = optional in positional or optional in keywords or takes_any_keyword
        # Only if there are too few parameters: a method that takes the argument under another name must get it.
        if not by_name and len(positional) < len(wanted) and not takes_any_position:
            wanted.remove(optional)
            return _leaving_out(bind(method, wanted), arguments.index(optional))
    first, rest = wanted[0], wanted[1:]
    known = {*positional, *keywords} - only_positional

    # The usual case first: the method itself is called for each batch, without a wrapper around it.
    in_order = positional[: len(wanted)]
    if in_order[1:] == rest and in_order[:1] and in_order[0] not in rest:
        return method
    if positional and positional[0] not in rest and all(name in known or takes_any_keyword for name in rest):
        return lambda value, *others: method(value, **dict(zip(rest, others, strict=True)))
    if first in known and all(name in known or takes_any_keyword for name in rest):
        return lambda *values: method(**dict(zip(wanted, values, strict=True)))
    # A method without the loop's names gets its arguments by position, as in 0.12.
    without_names = not known & {*rest}
    if without_names and (takes_any_position or len(only_positional) == len(wanted)):
        return method
    if (any_names or optional is not None) and without_names and len(positional) == len(wanted):
        return method
    name = getattr(method, "__qualname__", repr(method))
    raise TypeError(
        f"{name} is called with the arguments ({', '.join(wanted)}), and its signature is "
        f"{inspect.signature(method)}: name its parameters like that"
    )


def _leaving_out(function: Callable[..., Any], index: int) -> Callable[..., Any]:
    """Return a wrapper of `function` that ignores the argument at position `index`."""
    if index == 1:
        return lambda first, _, *rest: function(first, *rest)
    return lambda *values: function(*values[:index], *values[index + 1 :])
