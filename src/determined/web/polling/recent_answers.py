"""`RecentAnswers`: the last answers of an expensive route, which are valid until the store changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

_LARGEST = 2_000_000  # numbers in all answers together: 8 to 16 MB


class RecentAnswers(Generic[T]):
    """Answers by question, for one version of the store's content."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = ""
        self._answers: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def find(self, version: str, question: str) -> T | None:
        """Return the answer to a question if it was given for this version."""
        with self._lock:
            found = self._answers.get(question) if version == self._version else None
            return None if found is None else found[0]

    def keep(self, version: str, question: str, answer: T, size: int) -> None:
        """Keep an answer of this many numbers; drop those for other versions, and the oldest beyond the limit."""
        with self._lock:
            if version != self._version:
                self._version = version
                self._answers.clear()
            self._answers[question] = (answer, size)
            while sum(size for _, size in self._answers.values()) > _LARGEST:
                self._answers.popitem(last=False)
