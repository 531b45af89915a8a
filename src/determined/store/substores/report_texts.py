"""Read many reports of trials as few long texts, for charts: a third of the time of reading them row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from determined.store.databases.base import Database, few_enough
from determined.store.sql.columns import text

# Bounds the memory of a page: SQLite's texts are limited to 1 GB, and a report usually has 50 to 1,000 bytes.
_ROWS_PER_PAGE = 20_000


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

    `ranks` are None if all are 0, `times` if they were not asked for. All fields have the same order, which is usually
    that of steps and ranks; databases do not promise it.
    """

    group: str
    steps: str
    ranks: str | None
    times: str | None
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
        for chunk in few_enough(trial_ids):
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
        times: bool = True,
        rows_per_page: int = _ROWS_PER_PAGE,
    ) -> Iterator[ReportTexts]:
        """Yield the valid reports of a trial in the order of groups. A page has one group.

        `groups` and the steps limit what is read. Without `times`, which take as long to read as everything else,
        `times` of the pages is None.
        """
        steps = [("step >= ?", first_step), ("step <= ?", last_step)]
        limits = [(condition, step) for condition, step in steps if step is not None]
        for group in self._groups(trial_id) if groups is None else map(text, sorted(groups)):
            where = ["trial_id = ?", "metric_group = ?", *(condition for condition, _ in limits)]
            values: list[object] = [trial_id, group, *(step for _, step in limits)]
            count = self._count_if_many(" AND ".join(where), values, rows_per_page)
            while count > rows_per_page:
                # Keyset pagination: rows that are added or archived meanwhile do not shift the following pages.
                (following,) = self._database.execute(
                    f"SELECT step, rank FROM metrics WHERE {' AND '.join(where)} "
                    f"ORDER BY step, rank LIMIT 1 OFFSET {rows_per_page}",
                    values,
                )
                yield from self._page(group, [*where, "(step, rank) < (?, ?)"], [*values, *following], times=times)
                where, values = [*where, "(step, rank) >= (?, ?)"], [*values, *following]
                count -= rows_per_page
            yield from self._page(group, where, values, times=times)

    def _count_if_many(self, conditions: str, values: Sequence[object], few: int) -> int:
        """Return the number of reports for which the conditions hold, or 0 if their steps and ranks are few."""
        # The index gives its ends at once. To count 10,000 entries takes a quarter of the time of reading the reports.
        ends = [
            self._database.execute(f"SELECT {end}(step) FROM metrics WHERE {conditions}", values)
            for end in ("min", "max")
        ]
        ((first,),), ((last,),) = ends
        if first is None:
            return 0
        # Ranks usually report at the same steps, so those at the ends tell how many there are.
        ((highest_rank,),) = self._database.execute(
            f"SELECT max(rank) FROM metrics WHERE {conditions} AND step IN (?, ?)", [*values, first, last]
        )
        if (last - first + 1) * (highest_rank + 1) <= few:
            return 0
        ((count,),) = self._database.execute(f"SELECT count(*) FROM metrics WHERE {conditions}", values)
        return int(count)

    def _page(
        self, group: str, where: Sequence[str], values: Sequence[object], *, times: bool, ranks: bool = False
    ) -> Iterator[ReportTexts]:
        """Yield the reports for which all conditions hold, if there are any."""
        conditions = " AND ".join([*where, "archived = 0"])
        ((highest_rank, steps, their_ranks, reported, bodies),) = self._database.execute(
            f"SELECT max(rank), {self._joined('step')}, {self._joined('rank') if ranks else 'NULL'}, "
            f"{self._joined('reported') if times else 'NULL'}, {self._database.join_texts}(body, ',') "
            f"FROM metrics WHERE {conditions}",
            values,
        )
        if highest_rank and not ranks:  # usually one rank reports, so the ranks are read only if they are needed
            yield from self._page(group, where, values, times=times, ranks=True)
        elif steps is not None:
            yield ReportTexts(group, steps, their_ranks, reported, f"[{bodies}]")

    def last_before(self, trial_id: int, step: int) -> tuple[int, float] | None:
        """Return the last step before a given one that has a valid report, and when it was reported; None if none."""
        found = [
            row
            for group in self._groups(trial_id)
            for row in self._database.execute(
                "SELECT step, reported FROM metrics WHERE trial_id = ? AND metric_group = ? AND step < ? "
                "AND archived = 0 ORDER BY step DESC, rank LIMIT 1",
                [trial_id, group, step],
            )
        ]
        return max(found, default=None)

    def _groups(self, trial_id: int) -> Iterator[str]:
        """Yield the groups of a trial's reports in order."""
        # One step in the index for each group, where DISTINCT would read all reports.
        first = "SELECT min(metric_group) FROM metrics WHERE trial_id = ?"
        ((group,),) = self._database.execute(first, [trial_id])
        while group is not None:
            yield group
            ((group,),) = self._database.execute(f"{first} AND metric_group > ?", [trial_id, group])

    def overwritten_attempts(self, trial_id: int) -> list[int]:
        """Return the attempts of a trial that reported steps after the one at which a later attempt began."""
        found = self._database.execute(
            "SELECT DISTINCT attempt FROM overwritten_metrics WHERE trial_id = ? ORDER BY attempt", [trial_id]
        )
        return [attempt for (attempt,) in found]

    def overwritten(self, trial_id: int, attempt: int, group: str) -> list[ReportTexts]:
        """Return what an attempt reported after the step at which a later one began."""
        found = self._database.execute(
            f"SELECT {self._joined('step')}, {self._joined('rank')}, {self._joined('reported')}, "
            f"{self._joined('body')} FROM overwritten_metrics "
            "WHERE trial_id = ? AND attempt = ? AND metric_group = ?",
            [trial_id, attempt, text(group)],
        )
        return [
            ReportTexts(group, steps, ranks, times, f"[{bodies}]")
            for steps, ranks, times, bodies in found
            if steps is not None
        ]

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
