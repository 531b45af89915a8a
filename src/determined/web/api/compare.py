"""`/api/compare`: hyperparameters, configuration and code of several trials side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.errors import InvalidExperimentException, NotFoundException
from determined.experiment.code.reading import Code, code_of, cut_note, known_hash_of, list_files
from determined.experiment.side_by_side import lines_of, settings_of
from determined.sentences import capitalized
from determined.store.store import Store
from determined.web.answers import Route, representable
from determined.web.identifiers import MOST_COMPARED, ComparedIds, numbers
from determined.web.state import reading, version
from determined.web.tables.trial_rows import TrialRow, read_trials, trial_rows

router = APIRouter(route_class=Route)

_MOST_EXPERIMENTS_WITH_CODE = 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class ComparedValue(TypedDict):
    """One hyperparameter or setting: its value for each trial, null where it is missing, and whether they differ."""

    name: str
    values: list[Any]
    differs: bool


class ComparedFile(TypedDict):
    """A file of the code: for each trial which variant it has ("a", "b", ...), null where the file is missing."""

    path: str
    variants: list[str | None]
    differs: bool


class Comparison(TypedDict):
    """Trials side by side, in the order in which they were asked for."""

    version: str
    trials: list[TrialRow]
    hparams: list[ComparedValue]
    config: list[ComparedValue]
    code: list[ComparedFile]
    notes: list[str]


@router.get("/api/compare")
def compare(request: Request, trials: ComparedIds) -> Comparison:
    """Return what the trials, given as `1,2,3`, have in common and in what they differ."""
    seen = version(request)
    wanted = numbers(trials, MOST_COMPARED)
    with reading(request) as store:
        table = read_trials(store.overview, trial_ids=wanted)
        rows = {row["id"]: row for row in trial_rows(table, {})}
        for trial_id in wanted:
            if trial_id not in rows:
                raise NotFoundException.of("trial", trial_id)
        chosen = [rows[trial_id] for trial_id in wanted]
        configs = {
            number: representable(settings_of(store.experiments.get(number).config))
            for number in {row["experiment"] for row in chosen}
        }
        code, notes = _code(store, [row["experiment"] for row in chosen])
        compared_code, cut = _compared_code(code, [row["experiment"] for row in chosen])
    return {
        "version": seen,
        "trials": chosen,
        "hparams": _compared([row["hparams"] for row in chosen]),
        "config": _compared([configs[row["experiment"]] for row in chosen]),
        "code": compared_code,
        "notes": [*notes, *cut],
    }


def _compared(columns: Sequence[Mapping[str, Any]]) -> list[ComparedValue]:
    """Return one row for each name in any of the columns, sorted by name."""
    lines = sorted(lines_of(columns), key=lambda line: line.name)
    return [{"name": line.name, "values": line.values, "differs": line.differs} for line in lines]


def _code(store: Store, experiment_ids: Sequence[int]) -> tuple[dict[int, Code], list[str]]:
    """Return the code of each experiment, and notes about experiments whose code is missing or not compared."""
    found: dict[int, Code] = {}
    notes = []
    different = list(dict.fromkeys(experiment_ids))
    if len(different) > _MOST_EXPERIMENTS_WITH_CODE:
        return {}, [f"The code of more than {_MOST_EXPERIMENTS_WITH_CODE} experiments is not compared."]
    for number in different:
        try:
            found[number] = code_of(store, store.experiments.get(number))
        except InvalidExperimentException as error:
            notes.append(f"{capitalized(str(error))}.")
    return found, notes


def _compared_code(found: Mapping[int, Code], experiment_ids: Sequence[int]) -> tuple[list[ComparedFile], list[str]]:
    """Return the files of the experiments' code, with the variant that each experiment has, and notes."""
    files = {number: list_files(code) for number, code in found.items()}
    paths = {number: {file.path: file for file in listed} for number, listed in files.items()}
    rows: list[ComparedFile] = []
    for path in sorted(set().union(*paths.values())):
        variants: dict[str, str] = {}
        of_experiment: dict[int, str | None] = {}
        for number, code in found.items():
            if path in paths[number]:
                content = known_hash_of(code, paths[number][path])
                variants.setdefault(content, _LETTERS[len(variants) % len(_LETTERS)])
                of_experiment[number] = variants[content]
        letters = [of_experiment.get(number) for number in experiment_ids]
        rows.append({"path": path, "variants": letters, "differs": len(set(letters)) > 1})
    return rows, sorted({note for listed in files.values() if (note := cut_note(listed)) is not None})
