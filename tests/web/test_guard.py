"""Which requests are answered: every route with and without credentials, and requests that other sites have caused."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from determined.errors import DeterminedError
from determined.web.checked_request import MOST_BODY_BYTES, MOST_LOGIN_BYTES
from determined.web.guard import allowed_hosts
from determined.web.sessions import Sessions
from tests.web.site import ORIGIN, PORT, Site


@pytest.fixture
def site(tmp_path: Path, static: Path) -> Iterator[Site]:
    with Site(str(tmp_path / "store.sqlite"), static) as opened:
        yield opened


def refused(answer: Any, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"error", "hint"}


def asked(site: Site, method: str, path: str, headers: dict[str, str]) -> Any:
    return site.ask(method, path, headers, json={} if method == "POST" else None)


def raw_status(site: Site, method: str, path: str) -> int:
    """Return the status of the answer to a path that is sent as it is: a client would remove the dots."""

    async def send() -> int:
        status = 0

        async def sent(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        headers = {"host": "localhost", "content-type": "application/json", **site.bearer}
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
        await site.guard(scope, receive, sent)
        return status

    return asyncio.run(send())


def test_every_route_needs_credentials(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("determined.web.sessions._LONGEST_DELAY", 0.0)  # 100 wrong tokens
    session = site.session()
    routes = site.routes()
    assert len(routes) > 20
    for method, path in routes:
        refused(asked(site, method, path, {}), 401)
        refused(asked(site, method, path, {"Authorization": "Bearer wrong"}), 401)
        refused(asked(site, method, path, {"Authorization": f"Basic {site.sessions.token}"}), 401)
        refused(asked(site, method, path, {"Cookie": session["Cookie"]}), 401)
        refused(asked(site, method, path, {"X-Det-Session": session["X-Det-Session"]}), 401)
        other = site.session()
        refused(asked(site, method, path, {**session, "X-Det-Session": other["X-Det-Session"]}), 401)
        for credentials in (site.bearer, {**session, "Sec-Fetch-Site": "same-origin"}):
            assert asked(site, method, path, credentials).status_code not in (401, 403, 500)
    refused(site.ask("GET", "/api/unknown"), 401)
    assert site.ask("GET", "/api/unknown", site.bearer).status_code == 404


def test_every_route_refuses_foreign_names_and_sites(site: Site) -> None:
    session = site.session()
    for method, path in site.routes():
        for credentials in (site.bearer, session):
            for headers in (
                {"Host": "evil.example"},
                {"Host": f"127.0.0.1.evil.example:{PORT}"},
                {"Host": ""},
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Origin": f"http://127.0.0.1:{PORT + 1}"},
                {"Origin": f"http://localhost:{PORT}"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
            ):
                refused(asked(site, method, path, {**credentials, **headers}), 403)


def test_a_name_that_no_request_can_have_is_refused_at_the_start() -> None:
    for name in ("http://box", "box:80", "box/", "user@box", "", " ", "b\u00fccher.example"):
        with pytest.raises(DeterminedError, match="--allow-host takes a host name or an address, such as gpu-box"):
            allowed_hosts("127.0.0.1", ["good", name])
    assert {"box.example", "gpu_box", "10.0.0.7", "fe80::1"} <= allowed_hosts(
        "127.0.0.1", ["Box.example.", "gpu_box", "10.0.0.7", "[fe80::1]"]
    )


def test_own_names_are_answered_on_any_port(site: Site) -> None:
    for host in (f"127.0.0.1:{PORT}", "localhost:9000", "[::1]:1", "BOX.example", "127.0.0.1"):
        answer = site.ask("GET", "/api/changes", {**site.bearer, "Host": host, "Origin": f"http://{host}"})
        assert answer.status_code == 200, (host, answer.text)


@pytest.mark.parametrize(
    "host", ["evil.example@127.0.0.1", "127.0.0.1/evil", "127.0.0.1#evil", "127.0.0.1?", "127.0.0.1:x", "[::1", "a b"]
)
def test_a_host_with_anything_but_a_name_and_a_port_is_refused(site: Site, host: str) -> None:
    assert site.ask("GET", "/api/changes", {**site.bearer, "Host": host}).status_code in (400, 403)


def test_no_body_is_read_without_credentials(site: Site) -> None:
    read = []

    async def body() -> Any:
        read.append(True)
        yield b"{}"

    refused(site.ask("POST", "/api/actions", {"Content-Type": "application/json"}, content=body()), 401)
    assert not read


def test_the_page_and_its_files_need_no_credentials_and_have_no_data(site: Site) -> None:
    for path in ("/", "/runs", "/experiments/3?tab=code", "/static/page.js"):
        answer = site.ask("GET", path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
    navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert site.ask("GET", "/runs", navigation).status_code == 200
    refused(site.ask("GET", "/runs", {**navigation, "Sec-Fetch-Dest": "iframe"}), 403)
    refused(site.ask("GET", "/static/page.js", navigation), 403)
    refused(site.ask("GET", "/runs", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}), 403)
    refused(site.ask("GET", "/static/none.js"), 404)


def test_errors_have_the_same_headers(site: Site) -> None:
    for answer in (site.ask("GET", "/api/trials"), site.ask("GET", "/api/trials/1", site.bearer)):
        assert answer.status_code in (401, 503)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_changes_need_json_of_limited_size(site: Site) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        refused(site.ask("POST", "/api/actions", {**site.bearer, "Content-Type": kind}, content=b"{}"), 415)
    encoded = {**site.bearer, "Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused(site.ask("POST", "/api/actions", encoded, content=b"{}"), 415)
    large = b" " * (MOST_BODY_BYTES + 1)
    headers = {**site.bearer, "Content-Type": "application/json"}
    refused(site.ask("POST", "/api/actions", headers, content=large), 413)

    async def pieces() -> Any:
        for _ in range(5):
            yield b" " * (MOST_BODY_BYTES // 4)

    refused(site.ask("POST", "/api/actions", headers, content=pieces()), 413)
    refused(site.ask("GET", "/api/changes", headers, content=b"{}"), 400)
    # Before a login less is read, because all users of the machine can send requests.
    refused(
        site.ask("POST", "/login", {"Content-Type": "application/json"}, content=b" " * (MOST_LOGIN_BYTES + 1)), 413
    )
    many = {**headers, "Content-Length": "9" * 5000}
    assert site.ask("POST", "/api/actions", many, content=b"{}").status_code == 413
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = site.ask(method, "/api/actions", site.bearer)
        refused(answer, 405)
        assert answer.headers["allow"] == "GET, HEAD, POST"


def test_every_change_needs_json_of_limited_size(site: Site) -> None:
    changes = [path for method, path in site.routes() if method == "POST"]
    assert len(changes) >= 4
    for path in [*changes, "/login"]:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            refused(site.ask("POST", path, {**site.bearer, "Content-Type": kind}, content=b"{}"), 415)
        headers = {**site.bearer, "Content-Type": "application/json"}
        refused(site.ask("POST", path, headers, content=b" " * (MOST_BODY_BYTES + 1)), 413)


def test_no_route_changes_anything_on_get(site: Site) -> None:
    methods: dict[str, set[str]] = {}
    for method, path in site.routes():
        methods.setdefault(path, set()).add(method)
    for path, own in methods.items():
        assert len(own) == 1, "a path is for reading or for changes"
        for method in {"GET", "HEAD", "POST"} - own - ({"HEAD"} if own == {"GET"} else set()):
            answer = site.ask(method, path, site.bearer, json={} if method == "POST" else None)
            assert answer.status_code in (404, 405), (method, path)


def test_every_id_in_a_path_is_one_segment(site: Site) -> None:
    """`..` in the place of each id, in every spelling, reaches no other route or file."""
    from determined.web.openapi import document

    for template, methods in document()["paths"].items():
        if "{" not in template:
            continue
        for method in methods:
            for spelling in ("..", "%2e%2e", "%2E.", "..%2f..", "%252e%252e", "..%5c", "1%2f..%2f1", "1/../1", "%00"):
                path = spelling.join(re.split(r"\{\w+\}", template))
                assert raw_status(site, method.upper(), path) == 400, path


def test_a_change_of_the_page_needs_its_origin(site: Site) -> None:
    session = {**site.session(), "Content-Type": "application/json"}
    body = b'{"action": "pause", "ids": [1]}'
    refused(site.ask("POST", "/api/actions", session, content=body), 403)
    for own in ({"Origin": ORIGIN}, {"Sec-Fetch-Site": "same-origin"}):
        assert site.ask("POST", "/api/actions", {**session, **own}, content=body).status_code == 503


@pytest.mark.parametrize(
    "path",
    [
        "/static/../api/changes",
        "/static/..%2f..%2fetc/passwd",
        "/static/%2e%2e/x",
        "/static/%252e%252e/x",
        "/static/%25252e%25252e%25252f",
        "/static/.%2e/x",
        "/static/..\\x",
        "/static/%5c..%5cx",
        "/static/a%00b",
        "/./x",
        "/%2525252525252e",
    ],
)
def test_no_spelling_of_a_path_leads_elsewhere(site: Site, path: str) -> None:
    assert raw_status(site, "GET", path) == 400


def test_repeated_headers_are_refused(site: Site) -> None:
    async def send() -> int:
        status = 0

        async def sent(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        headers = [(b"host", b"localhost"), (b"host", b"evil.example")]
        await site.guard({"type": "http", "method": "GET", "path": "/", "headers": headers}, receive, sent)
        return status

    assert asyncio.run(send()) == 400


def test_a_login_makes_a_session_of_two_parts(site: Site) -> None:
    answer = site.ask("POST", "/login", json={"code": site.sessions.new_code()})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"det-session-{PORT}-")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert answer.json()["session"] not in cookie
    assert site.sessions.token not in cookie + answer.text
    tossed = f"{site.guard.cookie}=other; theme=dark; {cookie.partition(';')[0]}"
    headers = {"Cookie": tossed, "X-Det-Session": answer.json()["session"]}
    assert site.ask("GET", "/api/changes", headers).status_code == 200


def test_servers_of_two_machines_keep_their_sessions_in_one_browser(
    tmp_path: Path, static: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both listen on the same port, and `ssh -L` makes both of them localhost, where cookies are shared."""
    browser: dict[str, str] = {}
    headers = []
    sites = []
    for machine in ("gpu-1", "gpu-2"):
        monkeypatch.setattr(socket, "gethostname", lambda name=machine: name)
        site = Site(str(tmp_path / f"{machine}.sqlite"), static)
        sites.append(site)
        session = site.session()
        name, _, value = session["Cookie"].partition("=")
        browser[name] = value
        headers.append({"X-Det-Session": session["X-Det-Session"]})
    cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.items())}
    for site, header in zip(sites, headers, strict=True):
        with site:
            assert site.ask("GET", "/api/changes", {**cookies, **header}).status_code == 200
    again = Site(str(tmp_path / "gpu-2.sqlite"), static)  # the same name: cookies do not accumulate
    with again:
        assert again.guard.cookie == sites[1].guard.cookie


def test_a_login_is_refused(site: Site) -> None:
    bodies: list[Any] = [
        {},
        {"code": "x"},
        {"token": "x"},
        {"token": 1},
        {"code": "x", "token": "y"},
        [],
        {"other": "x"},
    ]
    for body in bodies:
        answer = site.ask("POST", "/login", json=body)
        assert answer.status_code in (400, 401), body
        assert "set-cookie" not in answer.headers
    refused(site.ask("GET", "/login"), 405)
    refused(site.ask("POST", "/login", {"Origin": "http://evil.example"}, json={"token": site.sessions.token}), 403)
    refused(site.ask("POST", "/login", {"Host": "evil.example"}, json={"token": site.sessions.token}), 403)


def test_a_code_works_once_for_a_minute() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    first, second = sessions.new_code(), sessions.new_code()
    assert sessions.log_in(code=first) is not None
    assert sessions.log_in(code=first) is None
    now = 61.0
    assert sessions.log_in(code=second) is None
    assert sessions.log_in(token=sessions.token) is not None


def test_wrong_secrets_are_slowed_down_and_right_ones_are_not() -> None:
    sessions = Sessions()
    delays = [sessions.count(right=False) for _ in range(20)]
    assert delays[:5] == [0.0] * 5
    assert delays[5:] == sorted(delays[5:])
    assert 0 < delays[5] < delays[-1] <= 2.0
    assert max(sessions.count(right=False) for _ in range(2000)) == 2.0
    assert sessions.count(right=True) == 0.0
    assert len(sessions.token) >= 43
    assert sessions.token not in repr(sessions)
