"""`/api/experiments`: rows of the table of experiments, and everything about one experiment."""

from __future__ import annotations

import functools
import json
from typing import Any, Literal

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.config.dump import dump_yaml
from determined.config.hyperparameters import Choice, Const, IntegerRange, LogRange, RealRange
from determined.config.secrets.masked_text import mask_yaml
from determined.config.secrets.masking import mask_secrets
from determined.errors import InvalidConfigurationException
from determined.experiment.searched_names import Hyperparameter, hyperparameters_of
from determined.web.actions.possible import experiment_actions, experiment_commands, experiment_python
from determined.web.answers import Route, number, representable
from determined.web.api.shapes import ActionState, Number, Plain
from determined.web.identifiers import Id
from determined.web.state import reading, version
from determined.web.tables.experiment_rows import ExperimentRow, experiment_rows

router = APIRouter(route_class=Route)


class ExperimentRows(TypedDict):
    """All experiments, newest first."""

    version: str
    rows: list[ExperimentRow]


class Searched(TypedDict):
    """A hyperparameter of the search space. `low` and `high` are values, also for the kind "log"."""

    name: str
    kind: Literal["int", "double", "log", "categorical", "const"]
    low: Number
    high: Number
    values: list[Any]


class ExperimentDetail(TypedDict):
    """Everything about one experiment but its trials. `original` is the configuration as it was written."""

    version: str
    row: ExperimentRow
    config: Plain
    config_text: str
    original: str
    seed: int
    notes: str
    searched: list[Searched]
    actions: list[ActionState]
    commands: dict[str, str]
    python: dict[str, str]


@router.get("/api/experiments")
def experiments(request: Request, archived: bool = False) -> ExperimentRows:
    """Return all experiments."""
    seen = version(request)
    with reading(request) as store:
        return {"version": seen, "rows": experiment_rows(store.overview, archived=archived)}


@router.get("/api/experiments/{experiment_id}")
def experiment(request: Request, experiment_id: Id) -> ExperimentDetail:
    """Return one experiment."""
    seen = version(request)
    with reading(request) as store:
        found = store.experiments.get(experiment_id)
        (row,) = experiment_rows(store.overview, experiment_id=experiment_id)
    config, config_text = _shown_config(json.dumps(found.config))
    return {
        "version": seen,
        "row": row,
        "config": config,
        "config_text": config_text,
        "original": _masked_text(found.original),
        "seed": found.seed,
        "notes": found.notes,
        "searched": list(map(_searched, hyperparameters_of(mask_secrets(found.config)))),
        "actions": experiment_actions(found),
        "commands": experiment_commands(found),
        "python": experiment_python(found),
    }


# Cached, because writing and parsing YAML takes longer than the rest of a request, which a page makes every second.
@functools.lru_cache(maxsize=64)
def _shown_config(config: str) -> tuple[Plain, str]:
    """Return a configuration, given as JSON, with its secrets masked: as data and as YAML."""
    masked = mask_secrets(json.loads(config))
    return representable(masked), dump_yaml(masked)


@functools.lru_cache(maxsize=64)
def _masked_text(original: str) -> str:
    """Return a configuration as the user wrote it. Its secrets were masked when it was stored, and are masked again."""
    try:
        return mask_yaml(original) if original else ""
    except InvalidConfigurationException:  # not written by this version: shown only if nothing in it is a secret
        return str(mask_secrets(original))


def _searched(found: Hyperparameter) -> Searched:
    """Return a hyperparameter of a search space with its range, or with its value if it is a constant."""
    name, leaf = found.name, found.leaf
    match leaf:
        case IntegerRange():
            return {"name": name, "kind": "int", "low": leaf.low, "high": leaf.high, "values": []}
        case RealRange():
            return {"name": name, "kind": "double", "low": number(leaf.low), "high": number(leaf.high), "values": []}
        case LogRange():
            low, high = map(number, leaf.bounds())
            return {"name": name, "kind": "log", "low": low, "high": high, "values": []}
        case Choice():
            values = representable(leaf.values)
            return {"name": name, "kind": "categorical", "low": None, "high": None, "values": values}
        case Const():
            values = [representable(leaf.value)]
            return {"name": name, "kind": "const", "low": None, "high": None, "values": values}
