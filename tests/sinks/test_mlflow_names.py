"""Names that MLflow accepts, by the rules that it documents; its client is not needed for this."""

from __future__ import annotations

import posixpath
import re

from hypothesis import given
from hypothesis import strategies as st

from determined.sinks.mlflow_sink import _named

ALLOWED = re.compile(r"[/\w.\- :]{1,250}")


@given(st.text(min_size=1) | st.lists(st.sampled_from(["a", ".", "..", "", " ", "é", "🙂"]), min_size=1).map("/".join))
def test_any_name_becomes_one_that_is_allowed(name: str) -> None:
    made = _named(f"training/{name}")
    assert ALLOWED.fullmatch(made)
    assert posixpath.normpath(made) == made
    assert made.startswith("training/")


def test_good_names_stay_and_long_ones_stay_apart() -> None:
    assert _named("validation/top-1 acc.") == "validation/top-1 acc."
    assert _named("x" * 300 + "a") != _named("x" * 300 + "b")
