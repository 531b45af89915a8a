"""Translates pydantic's errors into `Mistake` records: a path, what was expected, and what was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from determined.config.blocks.block import KIND_FIELD, TAG, Block
from determined.config.plain_data import Path, dotted
from determined.config.reading.catalog import catalog, field_hint
from determined.config.secrets.masking import MASK, mask_secrets
from determined.errors import Mistake

# Limited because searching for suggestions takes time, and a longer list is not useful.
MOST_MISTAKES = 100
UNKNOWN_FIELD = "unknown field"
_LONGEST_VALUE = 80  # fits into a line together with the path
# Blocks whose values are never shown, because they may be secrets under any name.
_SECRET_BLOCKS = {"secrets", "registry_auth", "environment_variables"}

# Explanations for unknown fields in certain blocks.
_REFUSED_IN = {
    "environment.environment_variables": "variables are a list of NAME=VALUE, or such lists for cpu, cuda and rocm",
}
_REFUSED_KINDS = {
    "searcher.custom": "custom search methods are not supported; optuna takes any of its samplers",
    "checkpoint_storage.hdfs": "HDFS is not supported; mount it and use directory, or use s3, gcs or azure",
}

_NEEDED = {
    "entrypoint": "what is run, for example model_def:MyTrial or python3 train.py",
    "searcher": "a map such as {name: single, metric: validation_loss}",
    "searcher.metric": "the validation metric by which trials are compared",
    "searcher.max_trials": "how many trials are run",
    "searcher.num_rungs": "at how many lengths trials are compared",
    "searcher.max_time": "the length of a whole training, in units of time_metric (or max_length: {epochs: 16})",
    "searcher.time_metric": "the metric that counts training: batches, epochs, or one that the trial reports",
    "searcher.population_size": "how many trials are trained side by side",
    "searcher.num_rounds": "how many rounds are trained",
    "searcher.length_per_round": "how long a round is, for example {batches: 500}",
    "checkpoint_storage.host_path": "the directory",
    "checkpoint_storage.container_path": "the directory",
}


def from_validation(error: ValidationError, model: type[Block], prefix: Path = ()) -> list[Mistake]:
    """Return the mistakes in a validation error; `prefix` is the path of the validated data."""
    details = error.errors(include_url=False)
    # One more than are shown, so that the caller knows that there are more.
    return [_translate(detail, model, prefix) for detail in details[: MOST_MISTAKES + 1]]


def got(path: Path, value: Any) -> str:
    """Return a wrong value for a message, shortened and without secrets."""
    names = [str(part) for part in path]
    # The mask of an arbitrary text shows whether a name is secret.
    hidden = any(name in _SECRET_BLOCKS or mask_secrets("x", name) == MASK for name in names)
    if hidden:
        return "a map" if isinstance(value, dict) else "a list" if isinstance(value, list) else "what is not shown here"
    shown = "null" if value is None else repr(mask_secrets(value))
    return shown if len(shown) <= _LONGEST_VALUE else shown[: _LONGEST_VALUE - 3] + "..."


def nearest_kind(kind: Any, known: Sequence[str]) -> str | None:
    """Return the known word that is most similar to this one, or None."""
    # 0.5 finds a word with a few wrong letters, and seldom an unrelated one.
    near = get_close_matches(kind.lower(), known, n=1, cutoff=0.5) if isinstance(kind, str) else []
    return near[0] if near else None


def guessed_alternatives(config: dict[str, Any], model: type[Block]) -> dict[str, dict[str, Any]]:
    """Return the blocks of an unknown kind, with the kind that was probably meant.

    With it their other fields can be validated too, so that all mistakes are reported at once.
    """
    guessed = {}
    for block, field in KIND_FIELD.items():
        value = config.get(block)
        if not isinstance(value, dict) or f"{block}.{value.get(field)}" in _REFUSED_KINDS:
            continue
        fields = _alternatives(model, block)
        kind = nearest_kind(value.get(field), list(fields))
        if kind is None:
            # The kind with the most fields in common, if the word is not similar to any.
            kind = max(fields, key=lambda name: len(value.keys() & set(fields[name])))
        if value.get(field) not in fields:
            guessed[block] = {**value, field: kind}
    return guessed


def below_guesses(
    mistakes: list[Mistake], guessed: dict[str, dict[str, Any]], config: dict[str, Any], model: type[Block]
) -> list[Mistake]:
    """Return the mistakes inside blocks of a guessed kind that are certain.

    If the guess is similar to the given word, these are all its mistakes, otherwise those that hold for every kind, and
    misspelled fields.
    """
    found = []
    for mistake in mistakes:
        block, _, name = mistake.path.partition(".")
        if block not in guessed or name == KIND_FIELD[block]:
            continue
        fields = _alternatives(model, block)
        is_near = nearest_kind(config[block].get(KIND_FIELD[block]), list(fields)) is not None
        owners = sum(name.partition(".")[0] in known for known in fields.values())
        is_missing = name not in config[block] and "." not in name
        # Which fields the intended kind has is not known, so a field is called unknown only if it looks misspelled.
        is_misspelled = owners == 0 and bool(get_close_matches(name, {*chain.from_iterable(fields.values())}, n=1))
        is_certain = owners == len(fields) if is_missing else is_misspelled or mistake.message != UNKNOWN_FIELD
        if is_near or is_certain:
            found.append(mistake)
    return found


def _alternatives(model: type[Block], block: str) -> dict[str, tuple[str, ...]]:
    """Return the field names of the kinds of a block, without `local`, which users cannot name."""
    found = {place[-1].removeprefix(TAG): fields for place, fields in catalog(model).items() if place[:-1] == (block,)}
    return {kind: fields for kind, fields in found.items() if kind != "local"}


def unknown_kind(path: Path, kind: Any, known: list[str]) -> Mistake:
    """Return the mistake for an unknown word in a field that selects an alternative."""
    near = nearest_kind(kind, known)
    hint = f"did you mean {near}?" if near else ""
    return Mistake(dotted(path), None, f"expected one of {', '.join(known)}, got {got(path, kind)}", hint)


def _translate(detail: ErrorDetails, model: type[Block], prefix: Path) -> Mistake:
    """Return the mistake for one pydantic error."""
    place = detail["loc"]
    # Tags of alternatives are not part of the file.
    path: Path = (*prefix, *(part for part in place if not str(part).startswith(TAG)))
    where, value = dotted(path), detail["input"]
    kind = detail["type"]
    if kind == "expected":
        context = detail["ctx"]
        return Mistake(where, None, f"expected {context['expected']}, got {got(path, value)}", context["hint"])
    if kind == "missing":
        return Mistake(where, None, "missing" + (f": {_NEEDED[where]}" if where in _NEEDED else ""))
    if kind == "extra_forbidden":
        # Indexes of lists are not part of the catalog.
        blocks = tuple(str(part) for part in place[:-1] if not isinstance(part, int))
        hint = _REFUSED_IN.get(dotted(path[:-1])) or field_hint(model, blocks, str(place[-1]))
        return Mistake(where, None, UNKNOWN_FIELD, hint)
    if kind in ("union_tag_invalid", "union_tag_not_found") and isinstance(value, dict):
        return _wrong_alternative(model, path, value)
    # All other errors of pydantic are about the type of a container, because every single value has its own validator.
    expected = "a list" if kind in ("tuple_type", "list_type") else "a map"
    return Mistake(where, None, f"expected {expected}, got {got(path, value)}")


def _wrong_alternative(model: type[Block], path: Path, value: dict[str, Any]) -> Mistake:
    """Return the mistake for a block whose kind is missing or unknown."""
    where = dotted(path)
    field = KIND_FIELD[where]
    known = list(_alternatives(model, where))
    if field not in value:
        return Mistake(f"{where}.{field}", None, f"missing: one of {', '.join(known)}")
    mistake = unknown_kind((*path, field), value[field], known)
    refused = _REFUSED_KINDS.get(f"{where}.{value[field]}")
    return Mistake(mistake.path, None, mistake.message, refused or mistake.hint)
