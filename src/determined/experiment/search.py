"""A searcher with its journal: what it was told is kept, so that it is where it was after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.config.masking import mask_secrets
from determined.searchers import journal
from determined.searchers.base import Action, Event, Searcher
from determined.searchers.build import build
from determined.store.experiment_records import JournalEntry, NewEntry

if TYPE_CHECKING:
    from determined.config.experiment import ExperimentConfig

_ENTRIES_BETWEEN_SNAPSHOTS = 200
_START = {"event": "start"}


def restored(
    config: ExperimentConfig, seed: int, snapshot: tuple[int, dict[str, Any]] | None, entries: list[JournalEntry]
) -> Search:
    """The search as it was after its last decision. `config` is the one that it began with: what was changed later is
    in the journal."""
    search = Search(build(config.searcher, config.hyperparameters, seed))
    search.restore(snapshot, entries)
    return search


class Search:
    """Counts what the searcher is told. Entries and the actions they led to are committed together by the caller."""

    def __init__(self, searcher: Searcher) -> None:
        self.searcher = searcher
        self.sequence = 0
        self._snapshot_at = 0

    def restore(self, snapshot: tuple[int, dict[str, Any]] | None, entries: list[JournalEntry]) -> None:
        """`entries` is the whole journal; what the snapshot includes is not told again."""
        if snapshot is not None:
            self.sequence, state = snapshot
            self.searcher.restore(state)
            self._snapshot_at = self.sequence
        for entry in entries:
            if entry.sequence > self.sequence:
                self.sequence = entry.sequence
                self._replay(entry.event)

    @property
    def begun(self) -> bool:
        return self.sequence > 0

    def start(self) -> tuple[NewEntry, list[Action]]:
        return self._entry(_START, self.searcher.start())

    def tell(self, event: Event) -> tuple[NewEntry, list[Action]]:
        return self._entry(journal.event_to_plain(event), self.searcher.on_event(event))

    def snapshot_if_due(self, *, now: bool = False) -> dict[str, Any] | None:
        """The searcher's state, once in a while: the journal alone would do, but takes longer to read."""
        if not now and self.sequence - self._snapshot_at < _ENTRIES_BETWEEN_SNAPSHOTS:
            return None
        self._snapshot_at = self.sequence
        return self.searcher.state()

    def _entry(self, event: dict[str, Any], actions: list[Action]) -> tuple[NewEntry, list[Action]]:
        self.sequence += 1
        return NewEntry(self.sequence, event, [_without_secrets(action) for action in actions]), actions

    def _replay(self, event: dict[str, Any]) -> None:
        if event == _START:
            self.searcher.start()
        else:
            self.searcher.on_event(journal.event_from_plain(event))


def _without_secrets(action: Action) -> dict[str, Any]:
    """Return an action as the journal keeps it; trials get their hyperparameters from their own rows."""
    plain = journal.action_to_plain(action)
    return {**plain, "hparams": mask_secrets(plain["hparams"])} if "hparams" in plain else plain
