"""The options `--state`, `--label`, `--name`, `--owner` and `--since`, which select experiments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from determined.cli.display.times import parse_since
from determined.cli.selection.ids import complete_labels

if TYPE_CHECKING:
    from determined.store.experiment_records import ExperimentFilter
    from determined.store.states import ExperimentState

_STOPPING = ("STOPPING_COMPLETED", "STOPPING_CANCELED", "STOPPING_KILLED", "STOPPING_ERROR")
# The accepted words, and the states each of them selects.
STATES: dict[str, tuple[str, ...]] = {
    "ACTIVE": ("ACTIVE",),
    "RUNNING": ("ACTIVE",),
    "PAUSED": ("PAUSED",),
    "STOPPING": _STOPPING,
    "COMPLETED": ("COMPLETED",),
    "CANCELED": ("CANCELED",),
    "ERROR": ("ERROR",),
    **{state: (state,) for state in _STOPPING},
}
# The words in help and error messages. The states STOPPING_* are accepted, but STOPPING selects all of them.
_SHOWN = [name for name in STATES if name not in _STOPPING]


def _parsed_states(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[ExperimentState, ...]:
    """Return the states named by an option, separated by commas and in any case; raise for an unknown one."""
    names = [part.strip().upper() for several in value for part in several.split(",")]
    for name in names:
        if name not in STATES:
            raise click.BadParameter(f"{name!r} is not a state of an experiment. States: {', '.join(_SHOWN)}")
    return tuple(state for name in names for state in STATES[name])  # type: ignore[misc]


def _complete_state(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _SHOWN if name.startswith(incomplete.upper())]


def _complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
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
