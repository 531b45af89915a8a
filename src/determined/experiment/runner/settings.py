"""The settings of an experiment's configuration that a runner uses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from determined.config.stored import StoredConfig, StoredLogPolicy
from determined.engines.command import Command, parse_entrypoint
from determined.engines.slots import too_few_slots
from determined.errors import InvalidExperimentException


@dataclass(frozen=True)
class LogPolicy:
    """A pattern for log lines, and whether a matching line forbids retries."""

    name: str
    pattern: re.Pattern[str]
    printed: re.Pattern[str]  # matches a printed copy of the pattern
    cancel_retries: bool

    def matches(self, line: str) -> bool:
        """Return whether a line matches the pattern.

        A line that merely shows the pattern, as a configuration does, does not.
        """
        # A program that prints its configuration must not trigger the policy in it.
        return self.pattern.search(line) is not None and self.printed.search(line) is None


@dataclass(frozen=True)
class Settings:
    """The configuration, and the settings of it that a runner uses."""

    config: StoredConfig
    command: Command
    metric: str
    smaller_is_better: bool
    time_metric: str | None
    source_checkpoint_id: str | None  # checkpoint from which every trial starts
    max_trials: int | None  # None if the configuration does not say it
    slots_per_trial: int
    max_slots: int | None
    max_at_once: int | None  # concurrent trials; None for searchers that limit them themselves
    max_restarts: int
    preemption_timeout: float
    hang_timeout: float | None
    max_trial_seconds: float | None
    log_policies: tuple[LogPolicy, ...] = field(default=())

    @property
    def space(self) -> dict[str, Any]:
        """The hyperparameters of the configuration: constants and search ranges."""
        return self.config.hyperparameters


def settings_of(config: StoredConfig) -> Settings:
    """Return the settings of a complete configuration: it has an entrypoint and a searcher with a metric."""
    searcher, resources = config.searcher, config.resources
    if config.entrypoint is None or searcher.metric is None:
        raise InvalidExperimentException("the stored configuration has no entrypoint, or no searcher with a metric")
    # A continued search resumes its ended trials at once, beyond the limit of its searcher: the runner limits them.
    # Methods that compare trials resume none.
    max_at_once = None if searcher.method.compares_trials else searcher.max_concurrent_trials
    return Settings(
        config=config,
        command=parse_entrypoint(config.entrypoint),
        metric=searcher.metric,
        smaller_is_better=searcher.smaller_is_better,
        time_metric=searcher.time_metric,
        source_checkpoint_id=searcher.source_checkpoint_uuid,
        max_trials=1 if searcher.method.one_trial else searcher.max_trials,
        slots_per_trial=resources.slots,
        max_slots=resources.max_slots,
        # 0 means no limit.
        max_at_once=max_at_once or None,
        max_restarts=config.max_restarts,
        preemption_timeout=config.preemption_timeout,
        hang_timeout=config.hang_timeout,
        max_trial_seconds=config.max_trial_seconds,
        log_policies=tuple(_log_policies(config.log_policies)),
    )


def check_slots(settings: Settings, present: int) -> None:
    """Raise InvalidExperimentException if a trial needs more slots than this machine has."""
    if settings.slots_per_trial > present:
        refuse_slots(too_few_slots(settings.slots_per_trial, present))


def refuse_slots(reason: str) -> NoReturn:
    """Raise InvalidExperimentException, because a trial can never have its slots."""
    raise InvalidExperimentException(f"resources.slots_per_trial: {reason}")


def _log_policies(policies: list[StoredLogPolicy]) -> Iterator[LogPolicy]:
    """Yield the log policies of a configuration that have a pattern."""
    for policy in policies:
        pattern = policy.pattern
        if pattern:
            retries_end = policy.action == "cancel_retries"
            yield LogPolicy(policy.name or pattern, _searchable(pattern), _printed(pattern), retries_end)


# Characters that are common in regular expressions and rare in log lines.
_OF_EXPRESSIONS = re.compile(r"\.[*+]|\\|\(\?|\[\^?[\w-]+\]")


def _printed(pattern: str) -> re.Pattern[str]:
    """Return an expression that finds a pattern in a printed configuration: Python, JSON (also nested) and YAML.

    A pattern that could be plain text counts as printed only after the name of its field.
    """
    once, twice = json.dumps(pattern)[1:-1], json.dumps(json.dumps(pattern))[3:-3]
    forms = {pattern, repr(pattern)[1:-1], pattern.replace("'", "''"), once, twice}
    # Longest first, because an alternation takes the first form that matches.
    text = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    is_plain = _OF_EXPRESSIONS.search(pattern) is None
    field = r"""(?:pattern|name)["'\\]*\s*[:=]\s*["'\\]*""" if is_plain else ""
    return re.compile(f"{field}(?:{text})")


def _searchable(pattern: str) -> re.Pattern[str]:
    """Return an equivalent expression without `.*` at its ends.

    With these each search of a long line would take a second.
    """
    bare = re.sub(r"^\.\*(?![?+])", "", pattern)
    bare = re.sub(r"(?<!\\)\.\*$", "", bare)
    return re.compile(bare or pattern)
