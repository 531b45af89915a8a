"""The `log_policies` block: log lines that give a trial a label or stop its restarts."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import PlainValidator

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.validators import FilledText

Action = Literal["cancel_retries", "exclude_node"]


def _pattern(value: Any) -> str:
    """Return a regular expression; raise an error for an invalid one."""
    if not isinstance(value, str):
        raise validators.refusal("a regular expression")
    try:
        re.compile(value)
    # RecursionError and OverflowError: patterns with deep nesting or huge repetitions.
    except (re.error, RecursionError, OverflowError) as error:
        raise validators.refusal("a regular expression", str(error)) from None
    return value


class LogPolicy(Block):
    """A policy: a log line that matches `pattern` gives the trial the label `name`.

    Without a pattern it is disabled.
    """

    name: FilledText
    pattern: Annotated[str, PlainValidator(_pattern)] | None = None
    action: Annotated[Action, validators.choice("cancel_retries", "exclude_node")] | None = None


# A trial that ran out of GPU memory would do so again, so by default it is not restarted.
BUILT_IN = (
    LogPolicy(name="CUDA OOM", pattern=".*CUDA out of memory.*", action="cancel_retries"),
    LogPolicy(name="ECC Error", pattern=".*uncorrectable ECC error encountered.*"),
)


def with_built_in(policies: tuple[LogPolicy, ...]) -> tuple[LogPolicy, ...]:
    """Return the policies of a file and the built-in ones whose names it does not use."""
    names = {policy.name for policy in policies}
    return (*(policy for policy in BUILT_IN if policy.name not in names), *policies)
