"""No request, however odd, makes the server fail: every parameter of every route gets unexpected values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given as generated
from hypothesis import settings
from hypothesis import strategies as any_of

from determined.store.open import open_store
from determined.web.openapi import document
from tests.web.site import Site
from tests.web.test_routes import filled

ODD = [
    "",
    "0",
    "-1",
    "1.5",
    str(2**63 - 1),
    str(2**63),
    "9" * 400,
    "1e400",
    "nan",
    "-inf",
    "true",
    "null",
    "'; DROP TABLE trials; --",
    "<script>",
    "../../etc/passwd",
    "a/b/c",
    "%00",
    "\x00",
    "\u202e",
    "\U0001f600" * 50,
    "x" * 3000,
    "1,2,3",
    "(",
    "training/loss",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DET_DATA_DIR", str(home))
        place = str(home / "store.sqlite")
        store = open_store(place)
        filled(store)
        store.close()
        static = home / "static"
        static.mkdir()
        for name in ("index.html", "page.js"):
            (static / name).write_text("x")
        with Site(place, static) as opened:
            yield opened


def check(answer: Any) -> None:
    assert answer.status_code < 500, answer.text
    assert answer.status_code == 200 or answer.json().keys() == {"error", "hint"}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


@pytest.mark.parametrize(("method", "path", "operation"), operations(), ids=lambda value: str(value)[:60])
def test_odd_parameters(site: Site, method: str, path: str, operation: dict[str, Any]) -> None:
    names = [parameter["name"] for parameter in operation.get("parameters", ())]
    sane = dict.fromkeys(names, "1") | {"key": "training/loss", "axis": "batches", "points": "10", "level": "INFO"}
    for name in names:
        for value in ODD:
            given = {**{other: sane[other] for other in names}, name: value}
            place = path
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    # As a browser does: a slash in an id is escaped.
                    text = quote(given.pop(parameter["name"]), safe="") or "x"
                    place = place.replace(f"{{{parameter['name']}}}", text)
            body: Any = {} if method == "POST" else None
            check(site.ask(method, place, site.bearer, params=given, json=body))


_json = any_of.recursive(
    any_of.none() | any_of.booleans() | any_of.integers() | any_of.floats(allow_nan=False) | any_of.text(max_size=20),
    lambda inner: any_of.lists(inner, max_size=4) | any_of.dictionaries(any_of.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
_names = any_of.sampled_from(["text", "config", "slots"])
_actions = any_of.sampled_from(["pause", "archive", "label", "note", "register", "extend", "fork", "continue"])


@settings(max_examples=60)
@generated(body=_json)
def test_odd_bodies(site: Site, body: Any) -> None:
    for path in ("/api/actions", "/api/actions/preview", "/api/export", "/login"):
        headers = {**site.bearer, "Content-Type": "application/json"}
        check(site.ask("POST", path, headers, content=json.dumps(body).encode(errors="surrogatepass")))


@settings(max_examples=60)
@generated(
    action=_actions, ids=_json, options=any_of.dictionaries(any_of.sampled_from(["text", "config", "slots"]), _json)
)
def test_odd_actions(site: Site, action: str, ids: Any, options: Any) -> None:
    headers = {**site.bearer, "Content-Type": "application/json"}
    for body in ({"action": action, "ids": ids}, {"action": action, "ids": [1, 99], "options": options}):
        check(site.ask("POST", "/api/actions", headers, content=json.dumps(body).encode(errors="surrogatepass")))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * 100_000 + b'"', b"NaN"])
def test_bodies_that_are_no_json(site: Site, content: bytes) -> None:
    headers = {**site.bearer, "Content-Type": "application/json"}
    for path in ("/api/actions", "/api/actions/preview", "/api/export", "/login"):
        check(site.ask("POST", path, headers, content=content))
