"""Known secrets are masked wherever they occur."""

from __future__ import annotations

import json
import os
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.config.secrets.masking import MASK
from determined.config.secrets.redaction import Redaction

SECRETS = st.lists(st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]), min_size=4), max_size=3)
QUOTED = "pässwörd- '\"\\n1"  # different in Python, JSON and URLs


@given(secrets=SECRETS, before=st.text(), after=st.text())
def test_no_known_secret_is_left(secrets: list[str], before: str, after: str) -> None:
    redaction = Redaction(secrets)
    for secret in secrets:
        text = f"{before}{secret}{after}"
        assert secret not in redaction.text(text)
        assert secret not in redaction.text(f"x key={text}")
        data = redaction.data({text: [text, {"inner": text}], "n": 1})
        (name, (first, second)), _ = data.items()
        assert not any(secret in found for found in (name, first, second["inner"]))


def test_what_stays_and_what_goes() -> None:
    redaction = Redaction(["hunter2", "hunter2-long", "abc", "a b\nsecond line", ""])
    assert redaction.text("hunter2-long hunter2 abc") == f"{MASK} {MASK} abc"
    assert redaction.text("the second line of it") == f"the {MASK} of it"
    assert redaction.text("x key=a b") == f"x key={MASK} b"  # it looks like a secret, up to the blank
    data = {"lr": 0.1, "ok": True, "none": None, "token": "short", "list": ["hunter2", 3]}
    expected = {"lr": 0.1, "ok": True, "none": None, "token": MASK, "list": [MASK, 3]}
    assert redaction.data(data) == expected
    assert json.loads(json.dumps(Redaction([]).data({"a": "b"}))) == {"a": "b"}


def test_a_secret_may_hold_bytes_that_are_no_text() -> None:
    secret = os.fsdecode(b"secret-\xe4\xf6\xfc")  # as os.environ contains it
    assert Redaction([secret]).text(f"it is {secret}") == f"it is {MASK}"


@pytest.mark.parametrize(
    "printed",
    [
        repr({"password": QUOTED}),
        json.dumps({"password": QUOTED}),
        json.dumps({"password": QUOTED}, ensure_ascii=False),
        f"https://host/?{urlencode({'user': QUOTED})}",
        f"https://host/{quote(QUOTED)}",
    ],
)
def test_a_secret_is_masked_in_every_form_in_which_programs_print_it(printed: str) -> None:
    shown = Redaction([QUOTED]).text(f"it is {printed}")
    assert MASK in shown
    assert not any(part in shown for part in ("rd-", "n1", "%C3"))
