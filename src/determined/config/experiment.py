"""Loads an experiment configuration from a file, a text or a dict: overrides, migration of old fields, validation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from determined.config.blocks.experiment import ExperimentConfig
from determined.config.blocks.ignored_fields import unserved_warning
from determined.config.dump import dump_yaml
from determined.config.plain_data import copy_plain, without_nulls
from determined.config.reading.error_messages import MOST_MISTAKES, below_guesses, from_validation, guessed_alternatives
from determined.config.reading.legacy import migrate
from determined.config.reading.lines import line_of, lines_of
from determined.config.reading.load import parse_yaml, read_source
from determined.config.reading.overrides import apply_overrides
from determined.config.reading.plausibility import doubts
from determined.config.reading.rules import broken_rules
from determined.config.secrets.masked_text import mask_yaml
from determined.config.secrets.masking import mask_secrets
from determined.config.space import check_space
from determined.errors import InvalidExperimentConfig, Mistake

__all__ = ["ExperimentConfig", "LoadedExperiment", "load_experiment"]


@dataclass(frozen=True)
class LoadedExperiment:
    """A valid configuration with notes and warnings about it."""

    config: ExperimentConfig
    original: str  # the YAML as given, with comments and secrets; if there are overrides, the result of applying them
    notes: list[str]  # fields of older releases, and how they are written today
    warnings: list[str]  # fields without effect, and values that were probably not intended
    file: str = ""  # the file that was read; empty for a dict
    text: str | None = field(default=None, repr=False)  # its text, which may contain secrets
    overridden: tuple[str, ...] = ()  # paths of the fields that were set by `--config`

    def place_of(self, path: str) -> str:
        """Return where a field was given, such as `config.yaml:3`, or "" if that is not known."""
        (found,) = _with_places([Mistake(path, None, "")], self.file, self.text, self.overridden)
        return str(found._replace(path="")).removesuffix(": ")

    @property
    def shown_original(self) -> str:
        """The original text without its secrets, for the store and for display."""
        return mask_yaml(self.original)


def load_experiment(
    source: str | os.PathLike[str] | dict[str, Any], *, overrides: Sequence[str] = ()
) -> LoadedExperiment:
    """Read, migrate and validate a configuration. Raise `InvalidExperimentConfig` with all mistakes at once."""
    data, name, text = _read(source)
    # Copied before anything else: the rest of the code may rely on plain data and on limits.
    raw, mistakes = copy_plain(data)
    if not isinstance(raw, dict):
        raise InvalidExperimentConfig([Mistake("", None, f"expected a map, got a {type(source).__name__}")])
    set_here: list[str] = []
    if overrides:
        raw, set_here = apply_overrides(raw, overrides)
        # Again, because an override may contain anything that a file may.
        raw, more = copy_plain(raw)
        mistakes += more
    # Migrated before validation, so that only the current format needs models.
    migration = migrate(without_nulls(raw))
    config, found = _checked(migration.config)
    mistakes += [*migration.mistakes, *found]
    if config is None or mistakes:
        raise InvalidExperimentConfig(_with_places(mistakes, name, text, set_here))
    return LoadedExperiment(
        config=config,
        # The text of the user is kept with its comments, unless overrides have made it obsolete.
        original=text if text is not None and not overrides else dump_yaml(raw),
        notes=_note(migration.changes, without_nulls(raw), migration.config),
        warnings=[*filter(None, [unserved_warning(migration.config)]), *doubts(config)],
        file=name,
        text=text,
        overridden=tuple(set_here),
    )


def _read(source: str | os.PathLike[str] | dict[str, Any]) -> tuple[Any, str, str | None]:
    """Return the data, the name of the file if there is one, and the text if there is one."""
    if not isinstance(source, (str, os.PathLike)):
        return source, "", None
    try:
        name, text = read_source(source)
    except OSError as error:
        mistake = Mistake("", None, error.strerror or str(error), file=os.fspath(source))
        raise InvalidExperimentConfig([mistake]) from None
    return parse_yaml(name, text), name, text


def _checked(config: dict[str, Any]) -> tuple[ExperimentConfig | None, list[Mistake]]:
    """Return the validated model, or None, and all mistakes."""
    space, mistakes = check_space(config.get("hyperparameters", {}))
    # Rules run on the plain data, so that they are checked even if the model cannot be built.
    mistakes += broken_rules(config)
    try:
        model = ExperimentConfig.model_validate({**config, "hyperparameters": space})
    except ValidationError as error:
        found = from_validation(error, ExperimentConfig)
        return None, [*found, *_inside_unknown_kinds({**config, "hyperparameters": space}), *mistakes]
    return model, mistakes


def _inside_unknown_kinds(config: dict[str, Any]) -> list[Mistake]:
    """Return the mistakes inside a searcher or storage of an unknown kind, validated as the kind probably meant."""
    guessed = guessed_alternatives(config, ExperimentConfig)
    if not guessed:
        return []
    try:
        ExperimentConfig.model_validate({**config, **guessed})
    except ValidationError as error:
        return below_guesses(from_validation(error, ExperimentConfig), guessed, config, ExperimentConfig)
    return []


def _with_places(mistakes: list[Mistake], name: str, text: str | None, set_here: Sequence[str]) -> list[Mistake]:
    """Return one mistake for each field, in the order of the file, with its file and line, or `--config`."""
    lines = {} if text is None else lines_of(text)
    first: dict[str, Mistake] = {}
    for mistake in mistakes:
        given_here = any(mistake.path == path or mistake.path.startswith(path + ".") for path in set_here)
        line = None if given_here else line_of(mistake.path, lines)
        file = "--config" if given_here else name
        # One mistake for each field: further ones usually follow from the first.
        first.setdefault(mistake.path, mistake._replace(line=line, file=file))
    found = sorted(first.values(), key=lambda mistake: (mistake.line is None, mistake.line or 0))
    more = [Mistake("", None, "there are more mistakes")] if len(found) > MOST_MISTAKES else []
    return found[:MOST_MISTAKES] + more


def _note(changes: list[str], before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a note with the migrated fields and how these parts of the file are written today."""
    if not changes:
        return []
    config = {name: value for name, value in after.items() if name not in before or before[name] != value}
    listed = "\n".join(f"  - {change}" for change in changes)
    if not config:
        return [f"This configuration was written for an older release:\n{listed}"]
    today = "".join(f"    {line}" for line in dump_yaml(mask_secrets(config)).splitlines(keepends=True))
    return [
        f"This configuration was written for an older release:\n{listed}\n  The current form of these parts:\n{today}"
    ]
