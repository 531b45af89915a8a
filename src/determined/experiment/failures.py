"""Failed trials grouped by their error, with the hyperparameters that distinguish them from other trials."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from determined.config.flattening import flat
from determined.config.metric_values import finite_number
from determined.config.secrets.masking import mask_secrets
from determined.experiment.creation.trial_alone import trial_alone
from determined.store import standalone_runs
from determined.store.experiment_records import Experiment, Trial
from determined.store.states import TRIAL_FAILED
from determined.store.store import Store

_LAST_LINES = 20  # enough for the traceback of most errors
# The end of a reason that the runner found in a traceback, perhaps with a remark about retries after it.
_PLACE = re.compile(r" \((?P<file>[^()]+), line (?P<line>\d+)\)(?P<remark>; not retried: .*)?$", re.DOTALL)
# Values that differ between trials with the same error: addresses, numbers. Digits of names (conv1) stay.
_VALUE = re.compile(r"0x[0-9a-fA-F]+|(?<![A-Za-z_0-9])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Distinction:
    """A hyperparameter that the trials of a group have in common, and that fewer of the other trials have.

    `text` is a condition such as `opt = lion` or `lr >= 0.5`. All `failed` trials of the group fulfil it, and `others`
    of the `other_trials` in the same experiments.
    """

    name: str
    text: str
    failed: int
    others: int
    other_trials: int


@dataclass(frozen=True)
class FailureGroup:
    """Trials that failed with the same error at the same place.

    `error` has an ellipsis where the messages differ, and `example` is the reason of the first trial. `command` runs
    the first trial again, alone; it is None for standalone runs, which only their own program can repeat. Secrets are
    masked in it: `command_note` then names what has to be replaced.
    """

    error: str
    example: str
    file: str | None
    line: int | None
    trial_ids: list[int]
    experiment_ids: list[int]
    distinctions: list[Distinction]
    last_lines: list[str]
    command: str | None
    command_note: str | None


class KnownFailures:
    """The failed trials of some experiments by error, which are compared again only if something has changed."""

    def __init__(self) -> None:
        self._known: tuple[object, list[FailureGroup]] = (None, [])

    def groups(self, store: Store, experiment_ids: Sequence[int]) -> list[FailureGroup]:
        """Return the groups of these experiments; see `failure_groups`."""
        stamp = (list(experiment_ids), failure_stamp(store, experiment_ids))
        known, groups = self._known
        if stamp != known:
            groups = failure_groups(store, experiment_ids)
            self._known = (stamp, groups)
        return groups


def failure_stamp(store: Store, experiment_ids: Sequence[int]) -> object:
    """Return everything that the groups of failed trials follow from, undecoded: reading this takes little time.

    Two stamps are equal if nothing has changed. Trials of searches that have not ended are not part of any group.
    """
    trials = [
        # The state of a standalone run also depends on its process, which may have ended without changing a row.
        (*row, standalone_runs.experiment_state(row.attempt_state, row.process) if row.state is None else None)
        for row in store.overview.ended_trials(experiment_ids)
    ]
    return trials, store.overview.configs(experiment_ids)


def failure_groups(store: Store, experiment_ids: Sequence[int]) -> list[FailureGroup]:
    """Return the failed trials of experiments by error, the most frequent error first."""
    experiments = {found: store.experiments.get(found) for found in experiment_ids}
    trials = {found: store.experiments.trials(found) for found in experiments}
    groups: dict[tuple[str, str | None, int | None], list[Trial]] = {}
    for row in (row for rows in trials.values() for row in rows if row.state in TRIAL_FAILED):
        message, file, line = _parts(_reason(row))
        groups.setdefault((_VALUE.sub("…", message), file, line), []).append(row)
    hparams = _Hparams()
    return [
        _group(store, key[1:], rows, experiments, [row for found in _ids(rows) for row in trials[found]], hparams)
        for key, rows in sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0].id))
    ]


def _group(
    store: Store,
    place: tuple[str | None, int | None],
    failed: list[Trial],
    experiments: dict[int, Experiment],
    trials: list[Trial],
    hparams: _Hparams,
) -> FailureGroup:
    """Return the group of these failed trials; `trials` are all trials of their experiments."""
    first = failed[0]
    messages = {_parts(_reason(row))[0] for row in failed}
    error = messages.pop() if len(messages) == 1 else _VALUE.sub("…", messages.pop())
    numbers = {row.id for row in failed}
    # A trial that has not started, or has not ended, does not show that its hyperparameters work.
    others = [row for row in trials if row.id not in numbers and row.runs and row.ended is not None]
    command, command_note = _command(experiments[first.experiment_id], first)
    return FailureGroup(
        error=error,
        example=_reason(first),
        file=place[0],
        line=place[1],
        trial_ids=sorted(numbers),
        experiment_ids=_ids(failed),
        distinctions=_distinctions(failed, others, hparams),
        last_lines=[line.text for line in store.logs(first.id, tail=_LAST_LINES)],
        command=command,
        command_note=command_note,
    )


def _ids(trials: Iterable[Trial]) -> list[int]:
    """Return the sorted ids of the experiments that these trials belong to."""
    return sorted({row.experiment_id for row in trials})


def _reason(trial: Trial) -> str:
    """Return why a trial failed; for one that left no reason, what is known."""
    if trial.reason:
        return trial.reason
    return "no reason recorded" if trial.exit_code is None else f"exit code {trial.exit_code}"


def _parts(reason: str) -> tuple[str, str | None, int | None]:
    """Split the recorded reason of a failure into the error and, if known, the file and line where it was raised."""
    found = _PLACE.search(reason)
    if found is None:
        return reason.partition("; not retried: ")[0], None, None
    return reason[: found.start()], found["file"], int(found["line"])


class _Hparams:
    """The hyperparameters of trials, flat, with their values also as texts. A trial is compared with many groups."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, Any], dict[str, str]]] = {}

    def of(self, trials: Sequence[Trial]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        """Return the values of each trial, and their texts."""
        for row in trials:
            if row.id not in self._known:
                values = flat(row.effective_hparams)
                self._known[row.id] = values, {name: _text(value) for name, value in values.items()}
        found = [self._known[row.id] for row in trials]
        return [values for values, _ in found], [texts for _, texts in found]


def _distinctions(failed: Sequence[Trial], others: Sequence[Trial], hparams: _Hparams) -> list[Distinction]:
    """Return what all failed trials have in common and not all others have, the clearest distinction first."""
    if not others:
        return []
    (in_group, texts), (elsewhere, other_texts) = hparams.of(failed), hparams.of(others)
    shown = flat(mask_secrets(failed[0].effective_hparams))
    found = []
    for name in in_group[0]:
        if any(name not in values for values in in_group):
            continue
        equal = _equal(name, shown[name], texts, other_texts)
        text, matching = equal or _beyond(name, in_group, elsewhere) or (None, 0)
        if text is not None and matching < len(elsewhere):
            found.append(Distinction(name, text, len(failed), matching, len(elsewhere)))
    return sorted(found, key=lambda distinction: (distinction.others, distinction.name))


def _equal(
    name: str, shown: Any, in_group: list[dict[str, str]], elsewhere: list[dict[str, str]]
) -> tuple[str, int] | None:
    """Return the condition that all failed trials have the same value, and how many others fulfil it, or None.

    `shown` is the value of the first one, masked if it is a secret.
    """
    values = {values[name] for values in in_group}
    if len(values) != 1:
        return None
    (value,) = values
    matching = sum(other.get(name) == value for other in elsewhere)
    return f"{name} = {_text(shown)}", matching


def _beyond(name: str, in_group: list[dict[str, Any]], elsewhere: list[dict[str, Any]]) -> tuple[str, int] | None:
    """Return the condition that all failed trials lie above or below all others, or None."""
    failed = [finite_number(values[name]) for values in in_group]
    known = [finite_number(other.get(name)) for other in elsewhere]
    inside = [value for value in failed if value is not None]
    outside = [value for value in known if value is not None]
    if len(inside) < len(failed) or len(outside) < len(known):
        return None
    if min(inside) > max(outside):
        return f"{name} >= {min(inside):.6g}", 0
    return (f"{name} <= {max(inside):.6g}", 0) if max(inside) < min(outside) else None


def _text(value: Any) -> str:
    """Return a hyperparameter as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)


def _command(experiment: Experiment, trial: Trial) -> tuple[str | None, str | None]:
    """Return the command that runs a trial of a search again as an experiment with these hyperparameters alone.

    The second value says which of its values are masked.
    """
    if experiment.is_standalone:
        return None, None
    alone = trial_alone(experiment, trial)
    words = ["det", "experiment", "fork", str(experiment.id)]
    return shlex.join(words + [word for setting in alone.settings for word in ("--config", setting)]), alone.note
