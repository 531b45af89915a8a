"""Validation rules that involve several fields. Each takes the plain configuration and yields mistakes.

The data may be invalid in other ways as well, so each rule first checks the types of the fields that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from determined.config.blocks.searcher import searcher_model
from determined.config.reading.error_messages import got
from determined.config.registry.implementation import load
from determined.config.registry.storage_types import storage_type
from determined.errors import Mistake

Config = dict[str, Any]

_LONG = 80
_BARE_CLASS = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*")
_BARE_SCRIPT = re.compile(r"[\w/]+\.py(?:\s.*)?", re.DOTALL)


def broken_rules(config: Config) -> list[Mistake]:
    """Return the mistakes that involve several fields."""
    return [mistake for rule in _RULES for mistake in rule(config)]


def _entrypoint(config: Config) -> Iterator[Mistake]:
    """Reject a class without a module, and a script without an interpreter."""
    entrypoint = config.get("entrypoint")
    if not isinstance(entrypoint, str):
        return
    text = entrypoint.strip()
    if _BARE_CLASS.fullmatch(text):
        module, _, name = text.rpartition(".")
        example = f"{module or 'model_def'}:{name}" if len(text) < _LONG else "model_def:MyTrial"
        yield Mistake("entrypoint", None, f"expected module:TrialClass, got {got((), text)}", f"for example {example}")
    elif _BARE_SCRIPT.fullmatch(text):
        script = text.split(maxsplit=1)[0][:_LONG]
        yield Mistake("entrypoint", None, f"expected a command, got {got((), text)}", f"for example python3 {script}")


def _method_rules(config: Config) -> Iterator[Mistake]:
    """Apply the rules of the search method."""
    searcher = _block(config, "searcher")
    model = searcher_model(searcher.get("name"))
    if model is not None:
        yield from model.problems(config)


def _slots_fit(config: Config) -> Iterator[Mistake]:
    """Require `max_slots` to be at least `slots_per_trial`."""
    resources = _block(config, "resources")
    # The default of the field, because the data are not validated yet.
    most, each = resources.get("max_slots"), resources.get("slots_per_trial", 1)
    if isinstance(most, int) and isinstance(each, int) and 1 <= most < each:
        yield Mistake("resources.max_slots", None, f"expected at least slots_per_trial, which is {each}, got {most}")


def _storage_rules(config: Config) -> Iterator[Mistake]:
    """Apply the rules of the storage type."""
    storage = _block(config, "checkpoint_storage")
    found = storage_type(storage.get("type"))
    if found is not None:
        yield from load(found.implementation).problems(storage)


def _workspace_and_project(config: Config) -> Iterator[Mistake]:
    """Require workspace and project together."""
    for given, other in (("workspace", "project"), ("project", "workspace")):
        if config.get(given) and not config.get(other):
            yield Mistake(other, None, f"missing: {given} is given, and the two go together")


def _profiled_batches(config: Config) -> Iterator[Mistake]:
    """Require `end_after_batch` to be at least `begin_on_batch`."""
    profiling = _block(config, "profiling")
    begin, end = profiling.get("begin_on_batch", 0), profiling.get("end_after_batch")
    if isinstance(begin, int) and isinstance(end, int) and begin > end:
        message = f"expected at least begin_on_batch, which is {begin}, got {end}"
        yield Mistake("profiling.end_after_batch", None, message)


# Fields that a pod spec may not set for the trial's container -> the field of the configuration to use instead.
_TRIAL_CONTAINER = "determined-container"
_NOT_FOR_TRIAL_CONTAINER = {
    "image": "environment.image",
    "imagePullPolicy": "environment.force_pull_image",
    "command": "entrypoint",
    "args": "entrypoint",
    "env": "environment.environment_variables",
    "envFrom": "environment.environment_variables",
    "ports": "environment.proxy_ports",
    "securityContext": "environment.add_capabilities and environment.drop_capabilities",
    "workingDir": "",
    "lifecycle": "",
    "livenessProbe": "",
    "readinessProbe": "",
    "startupProbe": "",
    "terminationMessagePath": "",
    "terminationMessagePolicy": "",
}


def _trial_container(config: Config) -> Iterator[Mistake]:
    """Reject fields of a pod spec that the configuration itself determines for the trial's container."""
    spec = _block(_block(_block(config, "environment"), "pod_spec"), "spec")
    containers = spec.get("containers")
    for index, container in enumerate(containers if isinstance(containers, list) else []):
        if not isinstance(container, dict) or container.get("name") != _TRIAL_CONTAINER:
            continue
        for name, instead in _NOT_FOR_TRIAL_CONTAINER.items():
            if container.get(name) not in (None, "", [], {}):
                yield Mistake(
                    f"environment.pod_spec.spec.containers.{index}.{name}",
                    None,
                    f"cannot be set for {_TRIAL_CONTAINER}, the container of the trial",
                    f"set {instead} instead" if instead else "leave it out",
                )


def _policy_names(config: Config) -> Iterator[Mistake]:
    """Reject duplicate names of log policies."""
    return _duplicates(config, "log_policies", "name", "is the name of an earlier policy")


def _mount_points(config: Config) -> Iterator[Mistake]:
    """Reject duplicate mount points."""
    return _duplicates(config, "bind_mounts", "container_path", "is taken by an earlier mount")


def _duplicates(config: Config, block: str, field: str, message: str) -> Iterator[Mistake]:
    """Reject entries of a list that have the same text in a field as an earlier entry."""
    entries = config.get(block)
    seen: set[str] = set()
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        value = entry.get(field) if isinstance(entry, dict) else None
        if isinstance(value, str) and value in seen:
            yield Mistake(f"{block}.{index}.{field}", None, f"{got((), value)} {message}")
        elif isinstance(value, str):
            seen.add(value)


def _block(config: Config, name: str) -> Config:
    """Return a block of the configuration; empty if it is not a map."""
    block = config.get(name)
    return block if isinstance(block, dict) else {}


_RULES: tuple[Callable[[Config], Iterator[Mistake]], ...] = (
    _entrypoint,
    _method_rules,
    _slots_fit,
    _storage_rules,
    _workspace_and_project,
    _profiled_batches,
    _trial_container,
    _policy_names,
    _mount_points,
)
