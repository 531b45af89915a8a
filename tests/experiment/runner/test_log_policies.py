"""Log policies find the lines that their patterns match, however long these are."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.config.blocks.log_policy import BUILT_IN
from determined.config.dump import dump_yaml
from determined.config.stored import StoredConfig
from determined.experiment.runner.settings import Settings, settings_of

_ENDS = st.sampled_from(["", ".*", ".*?", ".*+", "\\.*", "x*", ".", "^", "$", "(?i)", "a|.*", ".*|b"])


def policies(*patterns: str) -> Settings:
    searcher = {"name": "single", "metric": "loss"}
    written = [{"name": str(number), "pattern": pattern} for number, pattern in enumerate(patterns)]
    return settings_of(StoredConfig({"entrypoint": "true", "searcher": searcher, "log_policies": written}))


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
    """A pattern that begins with `.*` is searched from each position to the end of the line."""
    built_in = policies(*(policy.pattern or "" for policy in BUILT_IN)).log_policies
    assert [policy.pattern.pattern for policy in built_in] == [
        "CUDA out of memory",
        "uncorrectable ECC error encountered",
    ]


PATTERNS = [".*CUDA out of memory.*", "CUDA out of memory", r'lost \d+ "nodes"', "it's over", "loss: nan."]
REAL = {
    PATTERNS[0]: "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",
    PATTERNS[1]: "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",
    PATTERNS[2]: 'lost 3 "nodes"',
    PATTERNS[3]: "Error: it's over",
    PATTERNS[4]: "step 3, loss: nan. Giving up",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_printed_configuration_does_not_match_its_own_patterns(pattern: str) -> None:
    (policy,) = policies(pattern).log_policies
    config = {"log_policies": [{"name": "mine", "pattern": pattern, "action": "cancel_retries"}]}
    printed = [
        str(config),
        json.dumps(config),
        json.dumps({"config": json.dumps(config)}),
        json.dumps(config, indent=2).splitlines()[4],
        dump_yaml(config),
        f"LogPolicy(name='mine', pattern={pattern!r}, action='cancel_retries')",
    ]
    assert [text for text in printed if policy.matches(text)] == []
    assert policy.matches(REAL[pattern])
    assert not policy.matches("something else")
