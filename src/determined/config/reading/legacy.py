"""Migrates fields and searchers of older releases to the current format, as pure functions on plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from determined.config.reading.aliases import STEP_FIELDS
from determined.config.reading.error_messages import got
from determined.config.reading.legacy_searchers import lengths_as_times, retired_methods
from determined.config.stored import BATCHES_PER_STEP
from determined.errors import Mistake


@dataclass(frozen=True)
class Migration:
    """The migrated configuration, a description of each change, and the mistakes found."""

    config: dict[str, Any]
    changes: list[str]
    mistakes: list[Mistake]


def migrate(config: dict[str, Any]) -> Migration:
    """Replace everything that has another name or form today; other fields are unchanged and not validated."""
    notes = _Notes([], [])
    for change in _CHANGES:
        config = change(config, notes)
    return Migration(config, notes.changes, notes.mistakes)


@dataclass(frozen=True)
class _Notes:
    """The changes and mistakes collected during a migration."""

    changes: list[str]
    mistakes: list[Mistake]

    def refuse(self, path: str, message: str) -> None:
        """Record a mistake."""
        self.mistakes.append(Mistake(path, None, message))

    def expected(self, path: str, expected: str, value: Any) -> None:
        """Record a mistake that shows the value which was found."""
        self.refuse(path, f"expected {expected}, got {got(tuple(path.split('.')), value)}")


def _steps(config: dict[str, Any], notes: _Notes) -> dict[str, Any]:
    """Replace lengths in steps, which were used up to release 0.12, by lengths in batches."""
    config = dict(config)
    per_step = config.pop("batches_per_step", None)
    if per_step is None:
        per_step = BATCHES_PER_STEP
    elif not _is_count(per_step) or per_step < 1:
        notes.expected("batches_per_step", "a whole number from 1 on", per_step)
        # A valid value, so that no further mistakes follow from this one.
        per_step = BATCHES_PER_STEP
    elif "scheduling_unit" not in config:
        config["scheduling_unit"] = per_step
        notes.changes.append(f"batches_per_step: {per_step} is scheduling_unit: {per_step}")
    else:
        notes.changes.append(f"batches_per_step: {per_step} yields to scheduling_unit")
    for name in ("min_validation_period", "min_checkpoint_period"):
        if _is_count(config.get(name)):
            steps = config[name]
            config[name] = {"batches": steps * per_step}
            notes.changes.append(f"{name}: {steps} steps are {{batches: {steps * per_step}}}")
    searcher = config.get("searcher")
    if isinstance(searcher, dict):
        config["searcher"] = _searcher_steps(searcher, per_step, notes)
    return config


def _searcher_steps(searcher: dict[str, Any], per_step: int, notes: _Notes) -> dict[str, Any]:
    """Replace the step fields of a searcher by lengths in batches."""
    migrated = {}
    for name, value in searcher.items():
        new = STEP_FIELDS.get(name)
        if new is None:
            migrated[name] = value
        elif not _is_count(value) or value < 1:
            notes.expected(f"searcher.{name}", "a whole number of steps from 1 on", value)
            migrated.setdefault(new, {"batches": per_step})  # otherwise the field would also be reported as missing
        elif new in searcher or new in migrated:
            notes.refuse(f"searcher.{name}", f"says the same as searcher.{new}: keep that one")
        else:
            migrated[new] = {"batches": value * per_step}
            notes.changes.append(f"searcher.{name}: {value} is {new}: {{batches: {value * per_step}}}")
    return migrated


def _retired_searchers(config: dict[str, Any], notes: _Notes) -> dict[str, Any]:
    """Replace searchers that were retired, and lengths by times."""
    searcher = config.get("searcher")
    if not isinstance(searcher, dict):
        return config
    for change in (retired_methods, lengths_as_times):
        searcher, changes, mistakes = change(searcher)
        notes.changes.extend(changes)
        notes.mistakes.extend(mistakes)
    return {**config, "searcher": searcher}


def _gpu_is_cuda(config: dict[str, Any], notes: _Notes) -> dict[str, Any]:
    """Rename the device `gpu`, which was its name up to release 0.17.5, to `cuda`."""
    environment = config.get("environment")
    if not isinstance(environment, dict):
        return config
    environment = dict(environment)
    for name in ("image", "environment_variables"):
        block = environment.get(name)
        # A file with both names is left to the validation, which rejects `gpu`.
        if isinstance(block, dict) and "gpu" in block and "cuda" not in block:
            environment[name] = {("cuda" if key == "gpu" else key): value for key, value in block.items()}
            notes.changes.append(f"environment.{name}.gpu is called cuda")
    return {**config, "environment": environment}


def _log_policies(config: dict[str, Any], notes: _Notes) -> dict[str, Any]:
    """Migrate log policies: up to release 0.37 they had no names, and their action was a map with a type."""
    policies = config.get("log_policies")
    if not isinstance(policies, list):
        return config
    # Names are taken from the complete list, so that a generated one does not collide with a later one.
    names = {policy["name"] for policy in policies if isinstance(policy, dict) and isinstance(policy.get("name"), str)}
    migrated = []
    for index, policy in enumerate(policies):
        if not isinstance(policy, dict):
            migrated.append(policy)
            continue
        policy = dict(policy)
        action = policy.get("action")
        if isinstance(action, dict) and set(action) == {"type"}:
            policy["action"] = action["type"]
            notes.changes.append(f"log_policies.{index}.action: the map became the word {action['type']}")
        if "name" not in policy and isinstance(policy.get("pattern"), str) and policy["pattern"].strip():
            policy = {"name": _free_name(policy["pattern"], names), **policy}
            names.add(policy["name"])
            notes.changes.append(f"log_policies.{index} is named after its pattern")
        migrated.append(policy)
    return {**config, "log_policies": migrated}


def _free_name(wanted: str, taken: set[str]) -> str:
    """Return this name, with a number appended if it is taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted} ({number})"
    return name


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53


# In this order: lengths in steps become lengths in batches before searchers are translated.
_CHANGES: tuple[Callable[[dict[str, Any], _Notes], dict[str, Any]], ...] = (
    _steps,
    _retired_searchers,
    _gpu_is_cuda,
    _log_policies,
)
