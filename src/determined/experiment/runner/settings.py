"""The settings of an experiment's configuration that a runner uses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from determined.engines.command import Command, parse_entrypoint
from determined.errors import InvalidExperimentException
from determined.plural import counted


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
        return self.pattern.search(line) is not None and self.printed.search(line) is None


@dataclass(frozen=True)
class Settings:
    """The plain configuration, and the settings of it that a runner uses."""

    config: dict[str, Any]
    command: Command
    metric: str
    smaller_is_better: bool
    time_metric: str | None
    source: str | None  # checkpoint from which every trial starts
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
        return self.config.get("hyperparameters") or {}


def settings_of(config: dict[str, Any]) -> Settings:
    """Return the settings of a complete configuration, in which every field is set."""
    searcher, resources = config["searcher"], config.get("resources") or {}
    return Settings(
        config=config,
        command=parse_entrypoint(config["entrypoint"]),
        metric=searcher["metric"],
        smaller_is_better=searcher.get("smaller_is_better", True),
        time_metric=searcher.get("time_metric"),
        source=searcher.get("source_checkpoint_uuid"),
        max_trials=1 if searcher["name"] == "single" else searcher.get("max_trials"),
        slots_per_trial=max(1, resources.get("slots_per_trial", 1)),
        max_slots=resources.get("max_slots"),
        max_at_once=(searcher.get("max_concurrent_trials") if searcher["name"] in ("random", "grid") else None) or None,
        max_restarts=config.get("max_restarts", 5),
        preemption_timeout=config.get("preemption_timeout", 3600),
        hang_timeout=config.get("hang_timeout"),
        max_trial_seconds=config.get("max_trial_seconds"),
        log_policies=tuple(_log_policies(config.get("log_policies") or [])),
    )


def check_slots(settings: Settings, present: int) -> None:
    """Raise InvalidExperimentException if a trial needs more slots than there are."""
    if settings.slots_per_trial > present:
        raise InvalidExperimentException(
            f"resources.slots_per_trial: a trial wants {counted(settings.slots_per_trial, 'slot')}, "
            f"this machine has {present}; "
            "ask for fewer, or state more CPU slots with --slots or DET_SLOTS"
        )


def _log_policies(policies: list[dict[str, Any]]) -> list[LogPolicy]:
    found = []
    for policy in policies:
        if policy.get("pattern"):
            action = policy.get("action")
            name = policy.get("name") or policy["pattern"]
            pattern = policy["pattern"]
            found.append(LogPolicy(name, _searchable(pattern), _printed(pattern), action == "cancel_retries"))
    return found


# Characters that are common in regular expressions and rare in log lines.
_OF_EXPRESSIONS = re.compile(r"\.[*+]|\\|\(\?|\[\^?[\w-]+\]")


def _printed(pattern: str) -> re.Pattern[str]:
    """Return an expression that finds a pattern in a printed configuration: Python, JSON (also nested) and YAML.

    A pattern that could be plain text counts as printed only after the name of its field.
    """
    once, twice = json.dumps(pattern)[1:-1], json.dumps(json.dumps(pattern))[3:-3]
    forms = {pattern, repr(pattern)[1:-1], pattern.replace("'", "''"), once, twice}
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
