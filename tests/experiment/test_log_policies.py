"""Log policies find the lines that their patterns match, however long these are."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from determined.config.log_policy import BUILT_IN
from determined.experiment.settings import Settings, settings_of

_ENDS = st.sampled_from(["", ".*", ".*?", ".*+", "\\.*", "x*", ".", "^", "$", "(?i)", "a|.*", ".*|b"])


def policies(*patterns: str) -> Settings:
    searcher = {"name": "single", "metric": "loss"}
    written = [{"name": str(number), "pattern": pattern} for number, pattern in enumerate(patterns)]
    return settings_of({"entrypoint": "true", "searcher": searcher, "log_policies": written})


@given(before=_ENDS, after=_ENDS, line=st.text("ab.*\\x", max_size=12))
def test_the_same_lines_are_found(before: str, after: str, line: str) -> None:
    pattern = f"{before}ab{after}"
    try:
        expected = re.compile(pattern)
    except re.error:
        return
    (policy,) = policies(pattern).log_policies
    assert bool(policy.pattern.search(line)) == bool(expected.search(line))


def test_long_lines_are_searched_once() -> None:
    """With `.*` before it a text is looked for at every position to the end of the line, anew from each position."""
    built_in = policies(*(policy.pattern or "" for policy in BUILT_IN)).log_policies
    assert [policy.pattern.pattern for policy in built_in] == [
        "CUDA out of memory",
        "uncorrectable ECC error encountered",
    ]
