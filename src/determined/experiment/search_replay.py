"""`SearchReplay`: replays a search with its recorded events, to find the comparisons behind its decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from determined.errors import DeterminedError
from determined.searchers.base import Action, Searcher
from determined.searchers.decision_reason import Comparison
from determined.searchers.journal import actions_from_plain, event_from_plain
from determined.store.experiment_records import JournalEntry


class SearchReplay:
    """A search that is carried out again, one journal entry after the other, in the state after the last one.

    `problem` says why comparisons are missing from some entry on, or is None. `failed` is true if the reason was an
    error, such as a missing package: then another replay may succeed.
    """

    def __init__(self, config: dict[str, Any], seed: int) -> None:
        self.problem: str | None = None
        self.failed = False
        self._config, self._seed = config, seed
        self._searcher: Searcher | None = None

    def next(self, entry: JournalEntry) -> Sequence[Comparison] | None:
        """Return the comparisons behind the next entry; None from the first problem on.

        The replay ends at the first entry where it gives other actions than the recorded ones: from there on its
        comparisons would be those of another search.
        """
        if self.problem is not None:
            return None
        try:
            actions = self._actions(entry)
        # A search method may use a package, which may import another one only when it needs it.
        except Exception as error:  # noqa: BLE001  (whatever fails, the recorded decisions are shown)
            self.failed = True
            self.problem = (
                f"decisions are shown without their reasons, because the search cannot be replayed: {_text(error)}"
            )
            return None
        if [_identity(action) for action in actions] != [
            _identity(action) for action in actions_from_plain(entry.actions)
        ]:
            self.problem = (
                f"decisions from number {entry.sequence} on are shown without their reasons: replaying the search "
                "gives others, so it was made by another version or with another configuration"
            )
            return None
        assert self._searcher is not None
        return tuple(self._searcher.comparisons)

    def _actions(self, entry: JournalEntry) -> list[Action]:
        """Return the actions with which the searcher reacts to the event of an entry."""
        if self._searcher is None:
            from determined.config.stored_model import stored_model
            from determined.searchers.build import build

            config = stored_model(self._config)
            self._searcher = build(config.searcher, config.hyperparameters, self._seed)
        if entry.event["event"] == "start":
            return self._searcher.start()
        return self._searcher.on_event(event_from_plain(entry.event))


def _identity(action: Action) -> tuple[str, Mapping[str, Any]]:
    """Return type and fields of an action, to compare it; without hyperparameters, which the journal masks."""
    return type(action).__name__, {name: value for name, value in vars(action).items() if name != "hparams"}


def _text(error: Exception) -> str:
    """Return an error as part of a sentence, for errors of other packages with the class."""
    if isinstance(error, DeterminedError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"the package {error.name} is missing: pip install {error.name.partition('.')[0]}"
    return f"{type(error).__name__}: {error}"
