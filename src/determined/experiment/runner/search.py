"""A searcher with its journal: every event is recorded, so that its state can be restored after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.config.secrets.masking import mask_secrets
from determined.searchers import journal
from determined.searchers.base import Action, Event, Searcher
from determined.searchers.build import build
from determined.store.experiment_records import JournalEntry

if TYPE_CHECKING:
    from determined.config.experiment import ExperimentConfig

# A snapshot is as long as the state of all trials: one with every entry would take quadratic time in large searches.
_ENTRIES_BETWEEN_SNAPSHOTS = 200
_START = {"event": "start"}


def restored(
    config: ExperimentConfig, seed: int, snapshot: tuple[int, dict[str, Any]] | None, entries: list[JournalEntry]
) -> Search:
    """Return the search in its state after the last decision.

    `config` is the configuration with which it began: later changes are in the journal.
    """
    search = Search(build(config.searcher, config.hyperparameters, seed))
    search.restore(snapshot, entries)
    return search


class Search:
    """Numbers the events of a searcher. The caller commits each entry together with the actions that follow from it."""

    def __init__(self, searcher: Searcher) -> None:
        self.searcher = searcher
        self.sequence = 0
        self._snapshot_at = 0

    def restore(self, snapshot: tuple[int, dict[str, Any]] | None, entries: list[JournalEntry]) -> None:
        """Restore the state from a snapshot and the journal; entries that the snapshot includes are skipped."""
        if snapshot is not None:
            self.sequence, state = snapshot
            self.searcher.restore(state)
            # Later entries are replayed, so the next snapshot is due this many entries after the last one.
            self._snapshot_at = self.sequence
        for entry in entries:
            if entry.sequence > self.sequence:
                self.sequence = entry.sequence
                self._replay(entry.event)

    @property
    def begun(self) -> bool:
        """Whether the search has started."""
        return self.sequence > 0

    def start(self) -> tuple[JournalEntry, list[Action]]:
        """Start the search; return the journal entry and the first actions."""
        return self._entry(_START, self.searcher.start())

    def report(self, event: Event) -> tuple[JournalEntry, list[Action]]:
        """Report an event to the searcher; return the journal entry and the actions that follow."""
        return self._entry(journal.event_to_plain(event), self.searcher.on_event(event))

    def snapshot_if_due(self, *, now: bool = False) -> dict[str, Any] | None:
        """Return the searcher's state every 200 entries, else None. A snapshot shortens the replay of the journal."""
        if not now and self.sequence - self._snapshot_at < _ENTRIES_BETWEEN_SNAPSHOTS:
            return None
        self._snapshot_at = self.sequence
        return self.searcher.state()

    def _entry(self, event: dict[str, Any], actions: list[Action]) -> tuple[JournalEntry, list[Action]]:
        """Return the next journal entry."""
        self.sequence += 1
        return JournalEntry(self.sequence, event, [_without_secrets(action) for action in actions]), actions

    def _replay(self, event: dict[str, Any]) -> None:
        """Apply an event of the journal; its actions were carried out before."""
        if event == _START:
            # The actions are discarded: they are in the rows.
            self.searcher.start()
        else:
            self.searcher.on_event(journal.event_from_plain(event))


def _without_secrets(action: Action) -> dict[str, Any]:
    """Return an action as stored in the journal, with secrets masked.

    Trials get their hyperparameters from their rows.
    """
    plain = journal.action_to_plain(action)
    return {**plain, "hparams": mask_secrets(plain["hparams"])} if "hparams" in plain else plain
