"""Carry out the actions of the page: each calls the function that its `det` command calls.

Actions that run an experiment put it into the queue, so that it continues when the page or its server is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from determined.config.reading.overrides import apply_overrides
from determined.errors import DeterminedError
from determined.experiment.control import kill_trial, request
from determined.experiment.creation.create import create_experiment
from determined.experiment.creation.forking import plan_fork
from determined.experiment.deletion import delete_checkpoints, delete_experiment
from determined.queue.daemon_start import SHUTTING_DOWN, DaemonState
from determined.queue.submission import activate, add, continue_in_queue
from determined.sentences import counted
from determined.stop_request import StopRequest
from determined.store.process import this_user
from determined.store.store import Store
from determined.web.actions.requests import Options


class Done(NamedTuple):
    """The result of an action in words, and the id of a new experiment."""

    message: str
    created: int | None = None


class Target(NamedTuple):
    """A store that can be written, and its place, which the queue's daemon needs."""

    store: Store
    place: str


T = TypeVar("T")
OnNumber = Callable[[Target, int, Options], Done]
OnCheckpoint = Callable[[Target, str, Options], Done]


def _stop(kind: StopRequest) -> OnNumber:
    """Return the action that requests an experiment to stop in this way."""
    return lambda target, number, options: Done(request(target.store, number, kind))


def _kill_trial(target: Target, number: int, options: Options) -> Done:
    """Kill one trial; its experiment continues."""
    return Done(kill_trial(target.store, number))


def _activate(target: Target, number: int, options: Options) -> Done:
    """Let the queue run an experiment that is paused or was interrupted."""
    return _queued(number, activate(target.store, target.place, number))


def _extend(target: Target, number: int, options: Options) -> Done:
    """Let the queue run an ended search with more trials."""
    most = _needed(options.max_trials, "max_trials", "the new number of trials")
    return _queued(number, add(target.store, target.place, number, slots=options.slots, max_trials=most))


def _continue(target: Target, number: int, options: Options) -> Done:
    """Let the queue train an ended experiment further, with changed settings."""
    changes = apply_overrides({}, tuple(options.config))[0]
    continued, daemon = continue_in_queue(target.store, target.place, number, changes, slots=options.slots)
    changed = "" if continued is None or not continued.changed else f" Changed: {', '.join(continued.changed)}."
    return Done(f"{_queued(number, daemon).message}{changed}")


def _fork(target: Target, number: int, options: Options) -> Done:
    """Create a new experiment from an experiment or a checkpoint, and let the queue run it."""
    changes = [apply_overrides({}, tuple(options.config))[0]]
    fork = plan_fork(target.store, number, changes, name=options.text, from_checkpoint=options.from_checkpoint)
    created = create_experiment(
        fork.loaded,
        fork.directory,
        target.store,
        paused=True,
        slots=options.slots,
        fork_of=fork.parent,
        in_place=fork.in_place,
    ).experiment_id
    message = f"Created experiment {created}. {fork.note or ''}".strip()
    try:
        queued = _queued(created, add(target.store, target.place, created, slots=options.slots))
    except DeterminedError as error:
        return Done(f"{message} It is paused, because it could not be queued: {error}", created)
    return Done(f"{message} {queued.message}", created)


def _archive(archived: bool) -> OnNumber:
    """Return the action that archives experiments, or that unarchives them."""

    def run(target: Target, number: int, options: Options) -> Done:
        target.store.upkeep.set_archived(number, archived)
        return Done(f"Experiment {number}: {'archived' if archived else 'unarchived'}.")

    return run


def _label(target: Target, number: int, options: Options) -> Done:
    """Add a label to an experiment."""
    labels = target.store.upkeep.change_labels(number, add=[_text(options, "the label")])
    return Done(f"Labels of experiment {number}: {', '.join(labels)}")


def _unlabel(target: Target, number: int, options: Options) -> Done:
    """Remove a label from an experiment."""
    labels = target.store.upkeep.change_labels(number, remove=[_text(options, "the label")])
    return Done(f"Labels of experiment {number}: {', '.join(labels) or 'none'}")


def _rename(target: Target, number: int, options: Options) -> Done:
    """Give an experiment another name."""
    name = _text(options, "the name")
    target.store.upkeep.describe(number, name=name)
    return Done(f"Experiment {number}: renamed to {name}")


def _describe(target: Target, number: int, options: Options) -> Done:
    """Give an experiment another description."""
    target.store.upkeep.describe(number, description=_needed(options.text, "text", "the description"))
    return Done(f"Experiment {number}: description changed.")


def _note(target: Target, number: int, options: Options) -> Done:
    """Replace the notes of an experiment."""
    target.store.upkeep.describe(number, notes=_needed(options.text, "text", "the notes"))
    return Done(f"Experiment {number}: notes saved.")


def _delete(target: Target, number: int, options: Options) -> Done:
    """Delete an experiment with its files, and name those that stay."""
    done = delete_experiment(target.store, number)
    kept = f" Kept, because they belong to another store or machine: {', '.join(done.left)}." if done.left else ""
    return Done(f"Deleted experiment {number} with {counted(len(done.checkpoints), 'checkpoint')}.{kept}")


def _register(target: Target, checkpoint_id: str, options: Options) -> Done:
    """Make a checkpoint the next version of a model."""
    registry = target.store.registry
    name = _text(options, "the name of a model")
    model = registry.find_model(name)
    if model is None:
        if not options.create_model:
            raise DeterminedError(f"there is no model named {name!r}")
        model = registry.create_model(name, owner=this_user())
    version = registry.register(model.id, checkpoint_id)
    return Done(f"Checkpoint {checkpoint_id} is version {version.number} of model {name}.")


def _delete_checkpoint(target: Target, checkpoint_id: str, options: Options) -> Done:
    """Delete the files of a checkpoint."""
    delete_checkpoints(target.store, [checkpoint_id])
    return Done(f"Deleted checkpoint {checkpoint_id}.")


ON_NUMBERS: dict[str, OnNumber] = {
    "pause": _stop("pause"),
    "cancel": _stop("cancel"),
    "kill": _stop("kill"),
    "kill_trial": _kill_trial,
    "activate": _activate,
    "continue": _continue,
    "extend": _extend,
    "fork": _fork,
    "archive": _archive(True),
    "unarchive": _archive(False),
    "label": _label,
    "unlabel": _unlabel,
    "rename": _rename,
    "describe": _describe,
    "note": _note,
    "delete": _delete,
}
"""The actions on experiments and trials."""

ON_CHECKPOINTS: dict[str, OnCheckpoint] = {"register": _register, "delete_checkpoint": _delete_checkpoint}
"""The actions on checkpoints."""


def _queued(experiment_id: int, daemon: DaemonState) -> Done:
    """Return the result of an action that has put an experiment into the queue."""
    if daemon == "shutting down":
        return Done(f"Experiment {experiment_id} is in the queue, but {SHUTTING_DOWN}")
    return Done(f"Experiment {experiment_id} is in the queue: it runs when slots are free.")


def _text(options: Options, what: str) -> str:
    """Return the text that the user has entered; `what` names it in the error if there is none."""
    text = _needed(options.text, "text", what).strip()
    if not text:
        raise DeterminedError(f"options.text is empty: expected {what}")
    return text


def _needed(value: T | None, name: str, what: str) -> T:
    """Return an option of the request, or raise an error that says what was expected."""
    if value is None:
        raise DeterminedError(f"options.{name} is missing: expected {what}")
    return value
