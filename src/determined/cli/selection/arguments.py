"""Arguments and options that select objects: ids (`3 4`, `3,4`, `3-9`, `UUID,UUID`) and filters such as `--state`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from click.types import IntParamType

from determined.cli.display.times import parse_since
from determined.cli.store_access import opened_store
from determined.errors import NotFoundException

if TYPE_CHECKING:
    from determined.store.experiment_records import ExperimentFilter
    from determined.store.states import ExperimentState

LARGEST = 2**63 - 1  # the largest value of a 64-bit column
_SEVERAL = re.compile(r"\d+(?:[,-]\d+)+")

Completion = Callable[[click.Context, click.Parameter, str], list[Any]]
_RANGE = re.compile(r"(\d+)-(\d+)")


class _Id(IntParamType):
    """An id: any 64-bit integer. The store knows whether the object exists."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and _SEVERAL.fullmatch(value.strip()):
            self.fail(f"{value!r} is a list: this command takes one id", param, ctx)
        number: int = super().convert(value, param, ctx)
        if abs(number) > LARGEST:
            self.fail(f"{number} is too large: no id is above {LARGEST}", param, ctx)
        return number


class Count(click.IntRange):
    """A count with a minimum; the maximum is a technical limit that the help does not show."""

    def __init__(self, min: int) -> None:
        super().__init__(min=min)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = super().convert(value, param, ctx)
        if number > LARGEST:
            self.fail(f"{number} is too large: the largest number is {LARGEST}", param, ctx)
        return number


ID = _Id()


class Ids(NamedTuple):
    """One id, or all existing ids from `first` to `last`."""

    first: int
    last: int | None = None

    def __str__(self) -> str:
        return str(self.first) if self.last is None else f"{self.first}-{self.last}"


def _uuids(context: click.Context, parameter: click.Parameter, value: str | tuple[str, ...]) -> list[str]:
    """Return the distinct checkpoint ids of one or several arguments, separated by commas."""
    given = (value,) if isinstance(value, str) else value
    found = list(dict.fromkeys(part.strip() for argument in given for part in argument.split(",")))
    if not all(found):
        raise click.BadParameter(f"{' '.join(given)!r} is not a list of checkpoints: expected UUIDs, or UUID,UUID")
    return found


def numbers(context: click.Context, parameter: click.Parameter, value: str | tuple[str, ...]) -> list[Ids]:
    """Parse ids and ranges of one or several arguments; `expand` turns ranges into ids."""
    return parse_ids((value,) if isinstance(value, str) else value)


def check_ids(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Raise a usage error for arguments that are not ids, before the command starts."""
    # While completing, the arguments are incomplete.
    if not context.resilient_parsing:
        parse_ids(value)
    return value


def parse_ids(given: Sequence[str]) -> list[Ids]:
    """Return the ids and ranges in the arguments; raise a usage error for anything else."""
    found = []
    for part in (part.strip() for argument in given for part in argument.split(",")):
        if between := _RANGE.fullmatch(part):
            first, last = _number(between[1]), _number(between[2])
            if first > last:
                raise click.BadParameter(f"{part!r} is not a range: the first id is larger than the last")
            found.append(Ids(first, last))
        elif re.fullmatch(r"-?\d+", part):
            found.append(Ids(_number(part)))
        else:
            raise click.BadParameter(f"{' '.join(given)!r} is not a list of ids such as 3, 3,4,7 or 3-9")
    return list(dict.fromkeys(found))


def is_single_id(given: Sequence[str]) -> bool:
    """Return whether a single id was given, and not a list or a range, which may also stand for one object."""
    return len(given) == 1 and given[0].strip().lstrip("-").isdecimal()


def expand(kind: Literal["experiment", "trial"], parsed: Sequence[Ids]) -> list[int]:
    """Return the distinct ids; of a range those that exist. Raise NotFoundException for a range without any."""
    found: dict[int, None] = {}
    for first, last in parsed:
        if last is None:
            found[first] = None
            continue
        with opened_store() as store:
            between = store.experiments.ids_between if kind == "experiment" else store.experiments.trial_ids_between
            existing = between(first, last)
        if not existing:
            raise NotFoundException(f"There is no {kind} between {first} and {last}.")
        found |= dict.fromkeys(existing)
    return list(found)


def complete_experiments(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete ids of experiments that are not archived."""
    return complete_experiments_that("are not archived")(context, parameter, incomplete)


def complete_experiments_that(suit: str) -> Completion:
    """Return a completion of experiments to which a command applies, by a key of `completion_items.SUITABLE`."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        from determined.cli.selection.completion_items import experiment_ids

        return experiment_ids(suit)(context, parameter, incomplete)

    return complete


def complete_trials(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete ids of trials."""
    from determined.cli.selection.completion_items import trial_ids

    return trial_ids(context, parameter, incomplete)


def complete_running_trials(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete ids of trials that have not ended."""
    from determined.cli.selection.completion_items import running_trial_ids

    return running_trial_ids(context, parameter, incomplete)


def complete_labels(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete labels of experiments."""
    from determined.cli.selection.completion_items import experiment_labels

    return experiment_labels(context, parameter, incomplete)


def complete_checkpoints(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete ids of checkpoints."""
    from determined.cli.selection.completion_items import checkpoint_uuids

    return checkpoint_uuids(context, parameter, incomplete)


with_checkpoints = click.argument(
    "checkpoints",
    metavar="UUIDS...",
    nargs=-1,
    required=True,
    callback=_uuids,
    shell_complete=complete_checkpoints,
)
"""Add one or several checkpoint ids to a command, as the argument `checkpoints`."""


def complete_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete names of models."""
    from determined.cli.selection.completion_items import model_names

    return model_names(context, parameter, incomplete)


def _number(text: str) -> int:
    return ID.convert(text, None, None)


def _states() -> dict[str, tuple[ExperimentState, ...]]:
    """Return the accepted words, and the states each of them selects."""
    # Imported on use, because the help of most commands does not need the store.
    from determined.store.states import EXPERIMENT_ENDED, EXPERIMENT_STOPPING

    return {
        "ACTIVE": ("ACTIVE",),
        "RUNNING": ("ACTIVE",),
        "PAUSED": ("PAUSED",),
        "STOPPING": EXPERIMENT_STOPPING,
        **{state: (state,) for state in EXPERIMENT_ENDED},
        **{state: (state,) for state in EXPERIMENT_STOPPING},
    }


def _shown_states() -> list[str]:
    """Return the words in error messages and completion. STOPPING_* are accepted, but STOPPING selects all of them."""
    return [name for name in _states() if not name.startswith("STOPPING_")]


def _parsed_states(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[ExperimentState, ...]:
    """Return the states named by an option, separated by commas and in any case; raise for an unknown one."""
    names = [part.strip().upper() for several in value for part in several.split(",")]
    known = _states() if names else {}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is not a state of an experiment. States: {', '.join(_shown_states())}")
    return tuple(state for name in names for state in known[name])


def _complete_state(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _shown_states() if name.startswith(incomplete.upper())]


def _complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Complete names of experiments."""
    from determined.cli.selection.completion_items import experiment_names

    return experiment_names(context, parameter, incomplete)


def with_state_and_label(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--state` and `--label` to a command, as the arguments `states` and `labels`."""
    labels = click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="LABEL",
        shell_complete=complete_labels,
        help="Experiments with this label; repeatable.",
    )
    return click.option(
        "--state",
        "states",
        callback=_parsed_states,
        shell_complete=_complete_state,
        multiple=True,
        metavar="STATE",
        help="Experiments in this state; several with commas.",
    )(labels(command))


def with_filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all filters to a list command, as the argument `only`."""

    @with_state_and_label
    @click.option(
        "--name",
        metavar="PATTERN",
        shell_complete=_complete_name,
        help="Experiments with this name; * and ? are wildcards.",
    )
    @click.option("--owner", metavar="PATTERN", help="Experiments of this user; * and ? are wildcards.")
    @click.option("--since", metavar="TIME", help="Experiments started since then: 3h, 2d, or a date.")
    @wraps(command)
    def filtered(
        *args: Any,
        states: tuple[ExperimentState, ...],
        labels: tuple[str, ...],
        name: str | None,
        owner: str | None,
        since: str | None,
        **kwargs: Any,
    ) -> Any:
        start = None if since is None else parse_since("--since", since)
        return command(*args, only=filter_of(states, labels)._replace(name=name, owner=owner, since=start), **kwargs)

    return filtered


def filter_of(states: tuple[ExperimentState, ...], labels: tuple[str, ...]) -> ExperimentFilter:
    """Return the filter for the values of `--state` and `--label`."""
    from determined.store.experiment_records import ExperimentFilter

    return ExperimentFilter(states=states, labels=labels)
