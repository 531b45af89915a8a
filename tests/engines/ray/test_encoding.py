"""Jobs and events arrive unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.engines.base import Event, Exited, Job, Line, Part, Placed, WakeupRequested
from determined.engines.command import Command, Harness, Module, Program, Script, Shell
from determined.engines.ray.encoding import decode_event, decode_job, encode_event, encode_job

words = st.lists(st.text(max_size=8), min_size=1, max_size=4).map(tuple)
commands = st.one_of(
    st.builds(Harness, st.text(max_size=20)),
    st.builds(Shell, st.text(max_size=20)),
    st.builds(Script, words),
    st.builds(Module, words),
    st.builds(Program, words),
)
numbers = st.floats(0, 1e9, allow_nan=False)
events = st.one_of(
    st.builds(WakeupRequested, st.text(max_size=8)),
    st.builds(Placed, st.text(max_size=8), st.lists(st.text(max_size=8), max_size=2).map(tuple)),
    st.builds(
        Line,
        st.text(max_size=8),
        st.integers(0, 9),
        st.sampled_from(["stdout", "stderr"]),
        st.none() | st.sampled_from(["INFO", "ERROR"]),
        st.text(max_size=30),
        numbers,
    ),
    st.builds(
        Exited,
        st.text(max_size=8),
        st.integers(0, 255),
        st.none() | st.just("SIGKILL"),
        st.booleans(),
        numbers,
        lost=st.booleans(),
    ),
)


@given(commands, st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.integers(1, 4))
def test_jobs(command: Command, environment: dict[str, str], slots: int) -> None:
    part = Part(0, ("10.0.0.1", "10.0.0.2"), (slots, 1), 4711, ("0", "GPU-5"))
    job = Job("1.2.3", command, environment, Path("17"), slots + 1, part)
    sent = {
        "rank": 0,
        "addresses": list(part.addresses),
        "slots": list(part.slots),
        "port": 4711,
        "gpus": ["0", "GPU-5"],
    }
    assert decode_job(json.loads(json.dumps(encode_job(job))), sent) == job


@given(events)
def test_events(event: Event) -> None:
    assert decode_event(json.loads(json.dumps(encode_event(event)))) == event


@pytest.mark.parametrize("text", ["\udcff surrogate", "\x00 zero", "line separator \u2028"])
def test_odd_characters_of_programs(text: str) -> None:
    line = Line("key", 0, "stdout", None, text, 1.5)
    assert decode_event(json.loads(json.dumps(encode_event(line)))) == line
