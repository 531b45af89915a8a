"""Check the Ray cluster that DET_ENGINE names: whether it answers, and the versions on its nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from determined.cli.doctor.result import Result, ok, problem
from determined.config.engine import VARIABLE, parse_engine
from determined.errors import DeterminedError
from determined.plural import counted


def check_cluster(env: Mapping[str, str] = os.environ) -> Iterator[Result]:
    """Check the cluster, if experiments run on one by default; connecting takes seconds."""
    if not env.get(VARIABLE):
        return
    try:
        choice = parse_engine(env[VARIABLE], VARIABLE)
    except DeterminedError as error:
        yield problem("engine", str(error), f"correct or remove {VARIABLE}", needed=True)
        return
    if not choice.is_local:
        yield from _ray(choice.address, env)


def _ray(address: str | None, env: Mapping[str, str]) -> Iterator[Result]:
    """Check that Ray answers, that its authentication is configured, and that all nodes have the same versions."""
    from determined.engines.ray.survey import survey
    from determined.engines.ray.versions import versions

    try:
        found = survey(address, with_versions=True)
    except DeterminedError as error:
        yield problem("Ray", str(error), "start it with `ray start`, see docs/clusters.md", needed=True)
        return
    yield ok("Ray", f"{found['ray']}, {counted(len(found['nodes']), 'node')}")
    if not env.get("RAY_AUTH_MODE"):
        advice = "set it to token on all nodes, or to disabled in a private network"
        yield problem("Ray authentication", "RAY_AUTH_MODE is not set: its default depends on the command", advice)
    here = versions()
    for node in found["nodes"]:
        there = node["versions"] or {"problem": "it did not answer"}
        different = [f"{name} {there[name]}, here {here[name]}" for name in here if there.get(name, "") != here[name]]
        name = f"node {node['name']}"
        if "problem" in there:
            yield problem(name, there["problem"], "look at Ray's logs on that node")
        elif different:
            yield problem(name, "; ".join(different), "install the same versions on all nodes")
        else:
            yield ok(name, ", ".join(f"{package} {version}" for package, version in there.items()))
