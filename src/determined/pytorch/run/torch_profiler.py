"""Create the `torch.profiler.profile` object that a trial configures with `context.set_profiler`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

logger = logging.getLogger("determined.pytorch")


def make_profiler(arguments: tuple[Any, ...], options: dict[str, Any], directory: Path) -> Any:
    """Return a profiler with torch's positional arguments and keywords; traces go to `directory` by default.

    Positional arguments are matched with torch's signature, because the handler for traces must be replaced wherever
    it was given. Raises TypeError for too many arguments and for one that is given twice.
    """
    # From the signature of the installed torch, since releases add parameters.
    names = [name for name in inspect.signature(torch.profiler.profile.__init__).parameters if name != "self"]
    if len(arguments) > len(names):
        raise TypeError(f"set_profiler takes at most {len(names)} arguments, got {len(arguments)}")
    given = dict(options)
    for name, value in zip(names, arguments, strict=False):
        if name in given:
            raise TypeError(f"set_profiler got two values for the argument {name!r}")
        given[name] = value
    handler = given.get("on_trace_ready")
    if handler is None:
        handler = torch.profiler.tensorboard_trace_handler(str(directory))
    given["on_trace_ready"] = _logging_failures(handler)
    return torch.profiler.profile(**given)


def _logging_failures(handler: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Wrap a profiler handler so that its exceptions are logged.

    A trace that cannot be written must not end training, and an exception inside torch's profiler crashes the process.
    """

    def on_trace_ready(profiler: Any) -> None:
        try:
            handler(profiler)
        # Exception only: Ctrl-C during a long write must still reach the loop.
        except Exception:
            logger.exception("the profiler's on_trace_ready failed; training continues without that trace")

    return on_trace_ready
