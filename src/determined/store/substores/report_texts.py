"""Read many reports of trials as few long texts, for charts: a third of the time of reading them row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from determined.store.databases.base import Database
from determined.store.sql.columns import text

# Bounds the memory of a page: SQLite's texts are limited to 1 GB, and a report usually has 50 to 1,000 bytes.
_ROWS_PER_PAGE = 20_000
_MOST_VALUES = 900  # in one statement; the limit of older SQLite versions is 999


class TrialVersion(NamedTuple):
    """The version of a trial's reports. A stamp is a random number that is replaced, so that it never returns.

    `changes` is replaced by every transaction that changes reports, `rewrites` only by those that change reports before
    `steps_completed`, the last step that has a valid report.
    """

    trial_id: int
    changes: int
    rewrites: int
    steps_completed: int
    started: float


class ReportTexts(NamedTuple):
    """Reports of one group. All fields but `bodies` are numbers separated by commas.

    All fields have the same order, which is usually that of steps and ranks; databases do not promise it.
    """

    group: str
    steps: str
    ranks: str
    times: str
    bodies: str  # a JSON array


class ReportReader:
    """The queries that read the reports of trials for charts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def store_identity(self) -> str:
        """Return a text that no other store has, nor a file that replaces this one."""
        ((uuid,),) = self._database.execute("SELECT uuid FROM store_identity")
        return f"{uuid} {self._database.file_identity}"

    def versions(self, trial_ids: Sequence[int]) -> list[TrialVersion]:
        """Return the version of the reports of each trial that exists, in the order of the ids."""
        found = list[TrialVersion]()
        for start in range(0, len(trial_ids), _MOST_VALUES):
            chunk = trial_ids[start : start + _MOST_VALUES]
            rows = self._database.execute(
                "SELECT id, changes, rewrites, steps_completed, "
                "coalesce((SELECT min(a.started) FROM attempts a WHERE a.trial_id = trials.id), created) "
                f"FROM trials WHERE id IN ({', '.join('?' * len(chunk))}) ORDER BY id",
                list(chunk),
            )
            found += [TrialVersion(*row) for row in rows]
        return found

    def pages(
        self,
        trial_id: int,
        *,
        groups: Sequence[str] | None = None,
        first_step: int | None = None,
        last_step: int | None = None,
        archived: bool = False,
        rows_per_page: int = _ROWS_PER_PAGE,
    ) -> Iterator[ReportTexts]:
        """Yield the valid reports of a trial in the order of groups. A page has one group.

        `groups` and the steps limit what is read. `archived` adds reports after the step at which a later attempt
        began, as far as that attempt has not reported the same steps again.
        """
        conditions, limits = ["trial_id = ?", *([] if archived else ["archived = 0"])], list[object]([trial_id])
        if groups is not None:
            conditions.append(f"metric_group IN ({', '.join('?' * len(groups))})")
            limits += map(text, groups)
        if first_step is not None:
            conditions.append("step >= ?")
            limits.append(first_step)
        if last_step is not None:
            conditions.append("step <= ?")
            limits.append(last_step)
        after: tuple[object, ...] = ()
        while True:
            # Keyset pagination: rows that are added or archived meanwhile do not shift the following pages.
            where = " AND ".join([*conditions, *(["(metric_group, step, rank) > (?, ?, ?)"] if after else [])])
            found = self._database.execute(
                f"SELECT metric_group, {self._joined('step')}, {self._joined('rank')}, {self._joined('reported')}, "
                f"{self._joined('body')}, count(*) FROM ("
                f"SELECT metric_group, step, rank, reported, body FROM metrics WHERE {where} "
                f"ORDER BY metric_group, step, rank LIMIT {rows_per_page}) AS page GROUP BY metric_group ORDER BY 1",
                [*limits, *after],
            )
            for group, steps, ranks, times, bodies, _ in found:
                yield ReportTexts(group, steps, ranks, times, f"[{bodies}]")
            if sum(row[5] for row in found) < rows_per_page:
                return
            group, steps, ranks, *_ = found[-1]
            # Computed, because the database does not promise the order of the joined values.
            after = (group, *max(zip(map(int, steps.split(",")), map(int, ranks.split(",")), strict=True)))

    def samples(self, trial_id: int, group: str) -> list[ReportTexts]:
        """Return what a trial reported without a step, such as the load of a GPU, in the order of time.

        The number of a report counts as its step.
        """
        numbered = (
            "SELECT metric_group, row_number() OVER (ORDER BY reported, attempt, rank, sequence) - 1 AS step, "
            "0 AS rank, reported, body FROM samples WHERE trial_id = ? AND metric_group = ?"
        )
        found = self._database.execute(
            f"SELECT metric_group, {self._joined('step')}, {self._joined('rank')}, {self._joined('reported')}, "
            f"{self._joined('body')} FROM ({numbered} ORDER BY 2) AS page GROUP BY metric_group",
            [trial_id, text(group)],
        )
        return [ReportTexts(name, steps, ranks, times, f"[{bodies}]") for name, steps, ranks, times, bodies in found]

    def _joined(self, column: str) -> str:
        """Return the SQL expression that joins the values of a column with commas."""
        return f"{self._database.join_texts}(CAST({column} AS TEXT), ',')"
