"""Consistency rules between the rows of a store, checked in the same way for every database."""

from __future__ import annotations

import json
from collections.abc import Iterator

from determined.config.metric_values import finite_number
from determined.sentences import first_few
from determined.store.databases.base import Database
from determined.store.databases.column_checks import JSON_COLUMNS, WORDS, shape_mistake
from determined.store.databases.schema import VERSION_TABLE
from determined.store.databases.tables import all_indexes, all_tables
from determined.store.maintenance.finding import Finding
from determined.store.sql.paging import pages

_MOST_NAMED = 5  # enough to find the cause; a damaged store may have thousands of such rows

# (table, description of the problem, query that returns the ids of the rows that have it)
# Values that are stored twice to make queries fast, and parts of a record that are written together.
_RULES = [
    (
        "trials",
        "their number of attempts is not that of their newest one",
        "SELECT t.id FROM trials t WHERE t.attempt <> "
        "coalesce((SELECT max(a.number) FROM attempts a WHERE a.trial_id = t.id), 0)",
    ),
    (
        "trials",
        "their largest step is not that of their metrics",
        "SELECT t.id FROM trials t WHERE t.steps_completed <> "
        "coalesce((SELECT max(m.step) FROM metrics m WHERE m.trial_id = t.id AND m.archived = 0), 0)",
    ),
    (
        "trials",
        "the validation that is their best one is not there",
        "SELECT t.id FROM trials t WHERE t.best_step IS NOT NULL AND NOT EXISTS (SELECT 1 FROM metrics m "
        "WHERE m.trial_id = t.id AND m.metric_group = 'validation' AND m.step = t.best_step AND m.archived = 0 "
        "AND m.rank = 0)",
    ),
    (
        "experiments",
        "they cannot be run, because their row in leases is missing",
        "SELECT e.id FROM experiments e WHERE e.by_hand = 0 AND NOT EXISTS "
        "(SELECT 1 FROM leases l WHERE l.experiment_id = e.id)",
    ),
    (
        "experiments",
        "they are standalone runs without a trial that has an attempt",
        "SELECT e.id FROM experiments e WHERE e.by_hand = 1 AND NOT EXISTS (SELECT 1 FROM trials t "
        "JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt WHERE t.experiment_id = e.id AND t.number = 0)",
    ),
    (
        "experiments",
        "a search has no state",
        "SELECT e.id FROM experiments e WHERE e.by_hand = 0 AND e.state IS NULL",
    ),
    (
        "trials",
        "they have neither a state nor an attempt",
        "SELECT t.id FROM trials t WHERE t.state IS NULL AND NOT EXISTS "
        "(SELECT 1 FROM attempts a WHERE a.trial_id = t.id AND a.number = t.attempt)",
    ),
    (
        # A search is replayed from its journal, so a missing entry would change its decisions.
        "experiments",
        "their journal has gaps",
        "SELECT experiment_id FROM journal GROUP BY experiment_id HAVING max(sequence) - min(sequence) + 1 <> count(*)",
    ),
    (
        "experiments",
        "their search's state is newer than their journal",
        "SELECT s.experiment_id FROM snapshots s WHERE s.sequence > "
        "coalesce((SELECT max(j.sequence) FROM journal j WHERE j.experiment_id = s.experiment_id), 0)",
    ),
    (
        "model_versions",
        "their checkpoints are deleted",
        "SELECT v.id FROM model_versions v JOIN checkpoints c ON c.uuid = v.checkpoint WHERE c.state <> 'ACTIVE'",
    ),
    (
        "uploads",
        "their trial has no output that they could belong to",
        "SELECT u.id FROM uploads u WHERE NOT EXISTS (SELECT 1 FROM outputs o WHERE o.trial_id = u.trial_id)",
    ),
    (
        "uploads",
        "their attempt, rank or number of batches is not possible",
        "SELECT u.id FROM uploads u JOIN trials t ON t.id = u.trial_id "
        "WHERE u.attempt > t.attempt OR u.attempt < 1 OR u.rank < 0 OR u.batches < 0",
    ),
]


def missing_parts(database: Database) -> Iterator[Finding]:
    """Yield tables, columns and indexes of the schema that the database lacks, and tables that are not part of it."""
    present = database.tables()
    for name, table in all_tables().items():
        if name not in present:
            yield Finding(name, "the table is missing")
            continue
        columns = database.columns(name)
        for column in table.names:
            if column not in columns:
                yield Finding(name, f"the column {column} is missing")
    indexes = database.indexes()
    for index, table_name in all_indexes().items():
        if index not in indexes and table_name in present:
            yield Finding(table_name, f"the index {index} is missing: what needs it is slow, or no longer unique")
    # The version table is not created by a migration, and therefore not among `all_tables()`.
    for name in sorted(present - set(all_tables()) - {VERSION_TABLE}):
        yield Finding(name, "this table is not ours")


def broken_rules(database: Database) -> Iterator[Finding]:
    """Yield rows that violate a rule, states that are not defined, and wrong best validations."""
    for table, what, query in _RULES:
        found = [str(row[0]) for row in database.execute(f"{query} ORDER BY 1")]
        if found:
            yield Finding(table, f"{what}: {first_few(found, _MOST_NAMED)}")
    for (table, column), words in WORDS.items():
        marks = ", ".join("?" * len(words))
        strange = database.execute(
            f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL AND {column} NOT IN ({marks})", words
        )
        if strange:
            yield Finding(table, f"no {column} is called {first_few([repr(row[0]) for row in strange], _MOST_NAMED)}")
    yield from _wrong_best(database)


def unreadable_values(database: Database) -> Iterator[Finding]:
    """Yield columns whose text is not JSON of the expected shape."""
    for name, table in all_tables().items():
        columns = [column for column in table.names if (name, column) in JSON_COLUMNS]
        if not columns:
            continue
        for page in pages(database, table, [*table.key, *columns]):
            for row in page:
                key, values = row[: len(table.key)], row[len(table.key) :]
                for column, value in zip(columns, values, strict=True):
                    # Columns that must not be NULL are declared so in the schema, which the database enforces.
                    mistake = None if value is None else shape_mistake(value, JSON_COLUMNS[name, column])
                    if mistake is not None:
                        yield Finding(name, f"{column} of {'/'.join(map(str, key))} {mistake}")


def _wrong_best(database: Database) -> Iterator[Finding]:
    """Yield trials whose stored best validation differs from the report at that step."""
    found = database.execute(
        "SELECT t.id, e.metric, t.best_metric, m.body FROM trials t JOIN experiments e ON e.id = t.experiment_id "
        "JOIN metrics m ON m.trial_id = t.id AND m.metric_group = 'validation' AND m.step = t.best_step AND m.rank = 0 "
        "WHERE t.best_step IS NOT NULL AND e.metric IS NOT NULL ORDER BY t.id"
    )
    wrong = [str(trial) for trial, metric, best, body in found if not _is_reported(best, metric, body)]
    if wrong:
        yield Finding("trials", f"their best validation is not what was reported: {first_few(wrong, _MOST_NAMED)}")


def _is_reported(best: float, metric: str, body: str) -> bool:
    """Return whether a report contains the stored best value; also True if it cannot be parsed."""
    try:
        return finite_number(json.loads(body).get(metric)) == best
    except (ValueError, AttributeError):
        return True  # a report that cannot be read is found by `unreadable_values`
