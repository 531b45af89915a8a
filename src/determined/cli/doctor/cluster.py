"""Check the Ray cluster that `--engine` or DET_ENGINE names: whether it answers, and the versions on its nodes."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any

from determined.cli.doctor.result import Result, missing, ok, problem
from determined.config.engine import VARIABLE, parse_engine
from determined.errors import DeterminedError, MissingExtraError
from determined.sentences import counted


def check_cluster(engine: str | None, env: Mapping[str, str] = os.environ) -> Iterator[Result]:
    """Check the cluster that was named, or on which experiments run by default; connecting takes seconds."""
    source, text = (VARIABLE, env.get(VARIABLE, "")) if engine is None else ("--engine", engine)
    if engine is None and not text:
        # Not checked without being asked: the cluster of this machine may belong to others.
        if importlib.util.find_spec("ray") is not None:
            yield missing("Ray", "not checked, because no engine is named", "det doctor --engine ray")
        return
    try:
        choice = parse_engine(text, source)
    except DeterminedError as error:
        yield problem("engine", str(error), f"correct or remove {source}", needed=True)
        return
    if not choice.is_local:
        yield from _ray(choice.address, env)


def _ray(address: str | None, env: Mapping[str, str]) -> Iterator[Result]:
    """Check that Ray answers, and what it says."""
    from determined.engines.ray.survey import survey
    from determined.engines.ray.versions import versions

    try:
        found = survey(address, with_versions=True)
    except MissingExtraError as error:
        yield problem("Ray", str(error), "see docs/clusters.md", needed=True)
        return
    except DeterminedError as error:
        yield problem("Ray", str(error), "start it with `ray start`, see docs/clusters.md", needed=True)
        return
    yield from judge_cluster(found, versions(), env)


def judge_cluster(found: dict[str, Any], here: dict[str, str], env: Mapping[str, str]) -> Iterator[Result]:
    """Check what a survey of a cluster found: that its authentication is configured, and the versions on its nodes.

    The versions must be those of this machine (`here`), which runs the experiment.
    """
    yield ok("Ray", f"{found['ray']}, {counted(len(found['nodes']), 'node')}")
    if env.get("RAY_AUTH_MODE"):
        yield ok("Ray authentication", found["auth"])
    else:
        advice = "set it to token on all nodes, or to disabled in a private network"
        yield problem("Ray authentication", "RAY_AUTH_MODE is not set: its default depends on the command", advice)
    for node in found["nodes"]:
        yield _judged_node(f"node {node['name']}", node["versions"] or {"problem": "it did not answer"}, here)


def _judged_node(name: str, there: dict[str, str], here: dict[str, str]) -> Result:
    """Return whether a node has the versions of this machine."""
    if "problem" in there:
        return problem(name, there["problem"], "look at Ray's logs on that node")
    different = [
        f"{package} {there[package]}, here {here[package]}" for package in here if there[package] != here[package]
    ]
    if different:
        return problem(name, "; ".join(different), "install the same versions on all nodes")
    return ok(name, ", ".join(f"{package} {version}" for package, version in there.items()))
