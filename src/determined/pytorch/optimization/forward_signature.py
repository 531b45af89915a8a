"""Give a replacement of a model's forward the name, documentation and signature of the original."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch


def as_forward_of(model: torch.nn.Module, replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method `replacement` changed so that `inspect.signature` shows the signature of `model.forward`.

    Libraries choose the columns of a batch by that signature.
    """
    method: Any = functools.wraps(type(model).forward)(replacement)
    # The signature only helps other libraries, so a model without one is wrapped all the same.
    with contextlib.suppress(ValueError, TypeError):  # some built-in callables have no signature
        own = inspect.signature(model.forward)
        # The replacement is a method, whose first parameter inspect removes when it is bound.
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        parameters = [itself, *own.parameters.values()]
        method.__signature__ = own.replace(parameters=parameters)
    return method  # type: ignore[no-any-return]
