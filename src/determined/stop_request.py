"""`StopRequest`: the ways in which an experiment, a trial or a standalone run is requested to stop.

| request | what happens | who requests it |
|---|---|---|
| stop | save and end as completed | the searcher; the time limit of a trial |
| reschedule | save, to be started again at once | a program, through `core.preempt.request` |
| pause | save, to be resumed later | a user, a signal to the runner, the queue that needs the slots |
| halt | pause without saving: resume from the last checkpoint | a second Ctrl-C to the runner |
| cancel | save and end as canceled | a user |
| kill | end as canceled at once, without saving | a user |

The words are those in the database, except for `halt` and `reschedule`, which are never stored.
"""

from typing import Literal, get_args

# From the weakest to the strongest request. A literal and not an enumeration, because the words are read from and
# written to rows, sockets and JSON as they are.
StopRequest = Literal["stop", "reschedule", "pause", "halt", "cancel", "kill"]

_BY_STRENGTH: tuple[StopRequest, ...] = get_args(StopRequest)

# The requests that users make to an experiment, and those that are stored for the workers of a trial.
OF_USERS: tuple[StopRequest, ...] = ("pause", "cancel", "kill")
TO_WORKERS: tuple[StopRequest, ...] = ("stop", *OF_USERS)


def is_stronger(request: StopRequest | None, than: StopRequest | None) -> bool:
    """Return whether a request overrides another one; None, which means no request, overrides nothing."""
    return _strength(request) > _strength(than)


def _strength(request: StopRequest | None) -> int:
    return -1 if request is None else _BY_STRENGTH.index(request)
