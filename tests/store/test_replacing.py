"""Which metrics are there after any history of attempts: the store beside a dict."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from determined.store.open import open_store
from determined.store.records import BegunAttempt
from tests.store.rows import begin, metric

groups = st.sampled_from(["training", "validation"])
values = st.dictionaries(
    st.sampled_from(["a", "b", ""]), st.floats(allow_nan=False) | st.text('}{"\\,', max_size=3), max_size=2
)
report = st.tuples(st.just("report"), groups, st.integers(0, 6), values)
new_attempt = st.tuples(st.just("begin"), st.integers(0, 6))
history = st.lists(st.lists(report | new_attempt, max_size=8), max_size=8)


class Model:
    """The rule in a few lines."""

    def __init__(self) -> None:
        self.attempt = 1
        self.kept: dict[tuple[str, int], tuple[int, dict[str, Any], bool]] = {}

    def begin(self, step: int) -> None:
        self.attempt += 1
        for key, (attempt, metrics, archived) in self.kept.items():
            self.kept[key] = (attempt, metrics, archived or key[1] > step)

    def report(self, group: str, step: int, metrics: dict[str, Any]) -> None:
        attempt, earlier, _ = self.kept.get((group, step), (0, {}, False))
        united = {**earlier, **metrics} if attempt == self.attempt else metrics
        self.kept[group, step] = (self.attempt, united, False)


@settings(max_examples=60, deadline=None)
@given(history)
def test_the_store_keeps_what_the_rule_says(transactions: list[list[tuple[Any, ...]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store, model = open_store(Path(directory) / "store.sqlite"), Model()
        attempt: BegunAttempt = begin(store)
        for transaction in transactions:
            rows = []
            for kind, *arguments in transaction:
                if kind == "begin":
                    store.write(rows)
                    rows = []
                    attempt = begin(store, previous=attempt, steps=arguments[0])
                    model.begin(arguments[0])
                else:
                    rows.append(metric(attempt, *arguments))
                    model.report(*arguments)
            store.write(rows)
        found = {
            (row.group, row.steps_completed): (row.attempt, row.metrics, row.archived)
            for row in store.metrics(attempt.trial_id, archived=True)
        }
        shown = {(row.group, row.steps_completed) for row in store.metrics(attempt.trial_id)}
        store.close()
    assert found == model.kept
    assert shown == {key for key, (_, _, archived) in model.kept.items() if not archived}
