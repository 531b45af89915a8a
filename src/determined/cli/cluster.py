"""The command `det cluster`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import Column, table
from determined.cli.running.run_or_queue import with_engine
from determined.cli.store_access import opened_store
from determined.sentences import counted
from determined.store.states import EXPERIMENT_ENDED, WITH_PROCESSES

if TYPE_CHECKING:
    from determined.config.engine import EngineChoice
    from determined.store.experiment_records import Trial

_COLUMNS = [Column("Node", rank=0), Column("Address"), Column("Slots"), Column("Free"), Column("Trials", long=True)]


@click.command(cls=Command, action="show the cluster")
@with_engine
@with_json
def cluster(engine: EngineChoice | None, form: Form) -> None:
    """Show the nodes of a Ray cluster and what runs there.

    Also shows the experiments that wait for slots, and why, and the nodes that an experiment does not use. Without
    --engine and DET_ENGINE it is the cluster of this machine. Trials are those of the present store.

    \b
    Example: det cluster --engine ray:10.0.0.1:6379
    """
    from determined.engines.ray.survey import survey

    found = survey(None if engine is None else engine.address)
    with opened_store() as store:
        experiments = [one for one in store.experiments.list(limit=None) if one.state not in EXPERIMENT_ENDED]
        trials = [trial for one in experiments for trial in store.experiments.trials(one.id)]
    running = [trial for trial in trials if trial.state in WITH_PROCESSES and trial.nodes is not None]
    kind = "GPU" if any(node["resources"]["GPU"] for node in found["nodes"]) else "CPU"
    nodes = [_node(node, kind, running) for node in found["nodes"]]
    ids = {experiment.key: experiment.id for experiment in experiments}
    pending = [_pending(group, ids) for group in found["groups"] if group["state"] != "CREATED"]
    names = {node["id"]: node["name"] for node in found["nodes"]}
    refused = [
        {"node": names[node], "experiment": ids.get(key), "reason": reason}
        for key, nodes_of_it in found["refused"].items()
        for node, reason in nodes_of_it.items()
        if node in names
    ]
    if form == "json":
        shown = {"ray": found["ray"], "slots": kind, "grows": found["grows"]}
        print_json({**shown, "nodes": nodes, "pending": pending, "refused": refused})
        return
    click.echo(table(_COLUMNS, [[*list(node.values())[:4], _shown(node["trials"])] for node in nodes]))
    autoscaler = ", with an autoscaler" if found["grows"] else ""
    click.echo(f"Slots are {kind}s. Ray {found['ray']}{autoscaler}")
    for line, count in Counter(map(_waiting, pending)).items():
        click.echo(visible(f"Waiting: {counted(count, 'trial')} of {line}"))
    for one in refused:
        click.echo(visible(f"Not used: {one['node']} by {_whose(one['experiment'])}: {one['reason']}"))


def _node(node: dict[str, Any], kind: str, running: list[Trial]) -> dict[str, Any]:
    """Return a node with the trials that run on it and the number of their ranks there."""
    ranks = {trial.id: (trial.nodes or []).count(node["name"]) for trial in running}
    return {
        "name": node["name"],
        "address": node["address"],
        "slots": int(node["resources"][kind]),
        "free": int(node["free"][kind]),
        "trials": {str(trial): count for trial, count in ranks.items() if count},
    }


def _pending(group: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    """Return a group of slots that Ray has not granted, with the experiment that waits for it."""
    from determined.engines.ray.placement import experiment_of, reason_for_waiting

    key = experiment_of(group["name"])
    return {"experiment": ids.get(key), "slots": len(group["slots"]), "reason": reason_for_waiting(group["reason"])}


def _waiting(group: dict[str, Any]) -> str:
    """Return whose trial waits for how many slots, and why."""
    return f"{_whose(group['experiment'])}, {counted(group['slots'], 'slot')} each: {group['reason']}"


def _whose(experiment: int | None) -> str:
    return "an experiment of another store" if experiment is None else f"experiment {experiment}"


def _shown(trials: dict[str, int]) -> str:
    """Return trials with the number of their slots."""
    return ", ".join(f"{trial} ({counted(count, 'slot')})" for trial, count in trials.items())
