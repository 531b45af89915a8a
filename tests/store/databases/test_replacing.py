"""Which metrics are stored after any history of attempts, compared with a dict."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from determined.store.open import open_store
from determined.store.rows import BegunAttempt, Row
from tests.store.rows import begin, metric

groups = st.sampled_from(["training", "validation"])
values = st.dictionaries(
    st.sampled_from(["a", "b", ""]), st.floats(allow_nan=False) | st.text('}{"\\,', max_size=3), max_size=2
)
report = st.tuples(st.just("report"), st.integers(0, 1), groups, st.integers(0, 6), values)
new_attempt = st.tuples(st.just("begin"), st.integers(0, 6))
history = st.lists(st.lists(report | new_attempt, max_size=8), max_size=8)


class Model:
    """The rule in a few lines; attempts are counted from 1."""

    def __init__(self) -> None:
        self.starts = [0]
        self.kept: dict[tuple[str, int], tuple[int, dict[str, Any]]] = {}

    def begin(self, step: int) -> None:
        self.starts.append(step)

    def report(self, attempt: int, group: str, step: int, metrics: dict[str, Any]) -> None:
        newest, earlier = self.kept.get((group, step), (0, {}))
        if attempt >= newest:
            self.kept[group, step] = (attempt, {**earlier, **metrics} if attempt == newest else metrics)

    def archived(self, attempt: int, step: int) -> bool:
        return any(step > start for start in self.starts[attempt:])


@settings(max_examples=60)
@given(history)
def test_the_store_keeps_what_the_rule_says(transactions: list[list[tuple[Any, ...]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store, model = open_store(Path(directory) / "store.sqlite"), Model()
        attempts: list[BegunAttempt] = [begin(store)]
        for transaction in transactions:
            rows: list[Row] = []
            for kind, *arguments in transaction:
                if kind == "begin":
                    store.write(rows)
                    rows = []
                    attempts.append(begin(store, previous=attempts[-1], steps=arguments[0]))
                    model.begin(arguments[0])
                else:
                    late, *reported = arguments  # of the running attempt, or of the previous one
                    attempt = attempts[max(0, len(attempts) - 1 - late)]
                    rows.append(metric(attempt, *reported))
                    model.report(attempt.number, *reported)
            store.write(rows)
        found = {
            (row.group, row.steps_completed): (row.attempt, row.metrics, row.archived)
            for row in store.metrics(attempts[0].trial_id, archived=True)
        }
        shown = {(row.group, row.steps_completed) for row in store.metrics(attempts[0].trial_id)}
        store.close()
    assert found == {
        key: (attempt, metrics, model.archived(attempt, key[1])) for key, (attempt, metrics) in model.kept.items()
    }
    assert shown == {key for key, (_, _, archived) in found.items() if not archived}
