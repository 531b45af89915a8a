"""`RelayServer`: the runner's side of the relay, which makes the store calls of workers on other machines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.errors import DeterminedError, StoreError, StoreUnavailable
from determined.frames import LARGEST
from determined.store.relay import codec, messages
from determined.store.relay.rights import JobRights
from determined.store.rows import MetricRow
from determined.store.workers.local_worker_store import LocalWorkerStore

if TYPE_CHECKING:
    from determined.store.store import Store

logger = logging.getLogger("determined.store")


class Answers(NamedTuple):
    """The answers to requests, in their order, and the jobs that have reported a validation by these requests."""

    bodies: list[tuple[int, bytes]]
    validated: list[str]


@dataclass
class _Request:
    """A request with its answer, once there is one."""

    number: int | None = None
    call: str = ""
    arguments: list[Any] = field(default_factory=list)
    rights: JobRights | None = None
    answer: bytes | None = None

    @property
    def has_validation(self) -> bool:
        """Whether the request was to write a validation, after which the runner may have to decide."""
        rows = self.arguments[0] if self.call == "write" and self.arguments else ()
        return any(isinstance(row, MetricRow) and row.group == "validation" for row in rows)

    def succeed(self, result: Any) -> None:
        """Answer with a result. Raise StoreError if it is too large for an answer."""
        assert self.number is not None
        answer = messages.answered(self.number, result)
        if len(answer) > LARGEST:
            raise StoreError(f"the answer to {self.call} has {len(answer)} bytes: at most {LARGEST} can be relayed")
        self.answer = answer

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        if not isinstance(error, DeterminedError):
            # A defect of the library: the worker repeats the call, and this log says why it does not succeed.
            logger.error("a worker's call of the store failed: %s", self.call, exc_info=error)
        self.answer = messages.failed(self.number, error)


class RelayServer:
    """Answers the requests of all workers of an experiment. A runner has one, which one thread uses.

    A request is carried out if its job is the current one of its trial and it concerns that trial; see `rights.py`.
    Requests of one call of `answer` are carried out in any order: a worker waits for each answer.
    """

    def __init__(self, open_store: Callable[[], Store]) -> None:
        """Create the server; it calls `open_store` at the first requests, for a connection of its own."""
        self._open_store = open_store
        self._store: Store | None = None
        self._rights: dict[int, JobRights] = {}  # by trial, of its newest job that has made a request

    def answer(self, requests: Sequence[tuple[int, bytes]], current: Callable[[str], int | None]) -> Answers:
        """Carry out requests, each with the number of its connection, and return the answers.

        `current` returns the id of the trial whose current allocation has this key, or None. No exception leaves this
        method: a request that fails is answered with an error.
        """
        try:
            if self._store is None:
                self._store = self._open_store()
            accepted = _Accepting(self._store, current, self._rights)
            taken = [accepted.request(body) for _, body in requests]
            _carry_out(LocalWorkerStore(self._store), [request for request in taken if request.answer is None])
        # The store could not be opened.
        except DeterminedError as error:
            taken = [_unopened(body, error) for _, body in requests]
        bodies = [request.answer for request in taken]
        answers = [(number, body) for (number, _), body in zip(requests, bodies, strict=True) if body is not None]
        return Answers(answers, [request.rights.job for request in taken if request.rights and request.has_validation])

    def close(self) -> None:
        """Close the connection to the store."""
        if self._store is not None:
            self._store.close()
            self._store = None
            self._rights.clear()  # they use the closed store


class _Accepting:
    """Decodes a batch of requests and checks the rights of their jobs; each job is looked up once."""

    def __init__(self, store: Store, current: Callable[[str], int | None], rights: dict[int, JobRights]) -> None:
        self._store = store
        self._current = current
        self._rights = rights
        self._by_job: dict[str, JobRights | None] = {}

    def request(self, body: bytes) -> _Request:
        """Decode a request and check the rights of its job; a request that is refused already has its answer."""
        taken = _Request()
        try:
            message = messages.parse(body)
            taken.number = messages.number_of(message)
            request = messages.checked_request(message)
            taken.call = request.call
            taken.rights = self._rights_of(request.job)
            if request.call not in codec.method_names():
                raise ValueError(f"there is no call {request.call!r}")
            taken.arguments = codec.method(request.call).decoded(request.arguments)
            taken.rights.check(request.call, taken.arguments)
        except DeterminedError as error:
            taken.fail(error)
        # Permanent, because the same request would be refused again.
        except (ValueError, RecursionError) as error:
            taken.fail(StoreError(f"the relay of the store does not understand a request: {error}"))
        except Exception as error:  # noqa: BLE001  (logged, and answered)
            taken.fail(error)
        return taken

    def _rights_of(self, job: str) -> JobRights:
        """Return the rights of a job. Raise StoreError if it is not the current one of a trial."""
        if job not in self._by_job:
            self._by_job[job] = self._find(job)
        found = self._by_job[job]
        if found is None:
            raise StoreError(f"the trial of {job!r} was started again elsewhere, or has ended: this process must end")
        return found

    def _find(self, job: str) -> JobRights | None:
        """Return the rights of a job; None if it is not the current job of a trial."""
        trial_id = self._current(job)
        if trial_id is None:
            return None
        known = self._rights.get(trial_id)
        if known is None or known.job != job:
            known = self._rights[trial_id] = JobRights(self._store, trial_id, job)
        return known


def _carry_out(store: LocalWorkerStore, requests: Sequence[_Request]) -> None:
    """Carry out accepted requests. The rows of all of them share one transaction where possible."""
    try:
        writes = [request for request in requests if request.call == "write"]
        if len(writes) > 1 and _are_written(store, writes):
            for request in writes:
                request.succeed(None)
        for request in requests:
            if request.answer is None:
                _execute(store, request)
    # SQLite has waited for the lock of another writer already: each other request would wait as long again.
    except StoreUnavailable as error:
        for request in requests:
            if request.answer is None:
                request.fail(error)


def _are_written(store: LocalWorkerStore, writes: Sequence[_Request]) -> bool:
    """Write the rows of several requests in one transaction. Return False if some of them cannot be written."""
    try:
        store.write([row for request in writes for row in request.arguments[0]])
    except StoreUnavailable:
        raise
    # Raised again, and answered, when the rows of the request that causes it are written alone.
    except Exception:  # noqa: BLE001
        return False
    return True


def _execute(store: LocalWorkerStore, request: _Request) -> None:
    """Make the call of a request and answer it with the result or the error; only `StoreUnavailable` is raised."""
    assert request.rights is not None
    try:
        result = getattr(store, request.call)(*request.arguments)
        request.succeed(request.rights.examined(request.call, result))
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  (answered, and logged unless it is an error of the library)
        request.fail(error)


def _unopened(body: bytes, error: DeterminedError) -> _Request:
    """Return a request that is answered with the error of a store that could not be opened."""
    request = _Request()
    try:
        request.number = messages.number_of(messages.parse(body))
    except ValueError:
        logger.debug("a request to a store that could not be opened is not understood")
    request.fail(error)
    return request
