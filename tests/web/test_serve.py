"""The server as a process: port, token, login file, and its end."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from determined import built_page
from determined.cli.main import main
from determined.errors import DeterminedError
from determined.store.open import checked_place, open_store
from determined.web import serve
from determined.web.serve import bound_socket
from tests.helpers.ranks import free_port
from tests.helpers.waiting import wait_until
from tests.web.server import running_server


def test_it_answers_with_the_token_and_ends_on_ctrl_c(static: Path) -> None:
    with running_server(static) as server:
        assert server.get("/api/changes")["store"]["kind"] == "sqlite"
        assert httpx.get(server.url + "api/changes").status_code == 401
        for path in (server.token_file, server.login_file):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        words = " ".join(psutil.Process(server.process.pid).cmdline())
        assert server.token not in words
        page = httpx.get(server.url)
        assert server.token not in page.text + str(page.headers)
        assert "server" not in page.headers
        listening = {one.laddr.ip for one in psutil.Process(server.process.pid).net_connections("inet")}
        assert listening == {"127.0.0.1"}
        with httpx.Client(base_url=server.url) as kept_open:
            kept_open.get("/")
            assert server.interrupt() == 0
        assert not server.token_file.exists()
        assert not server.login_file.exists()
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_ends_while_a_request_waits_for_the_store(static: Path, number: signal.Signals, code: int) -> None:
    place = checked_place()
    open_store(place).close()
    with running_server(static) as server, sqlite3.connect(place, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        process = psutil.Process(server.process.pid)
        before = process.num_threads()
        with ThreadPoolExecutor() as pool:
            body = {"action": "label", "ids": [1], "options": {"text": "x"}}
            answer = pool.submit(server.ask, "POST", "/api/actions", body)
            wait_until(lambda: process.num_threads() > before, "the request did not reach its thread")
            server.process.send_signal(number)
            # A request waits for half a minute for a store that is locked.
            assert server.process.wait(15) == code
            assert answer.result().status_code == 503
        other.rollback()
        assert not server.token_file.exists()
        assert server.process.stderr is not None
        assert "Traceback" not in server.process.stderr.read()


def test_sigterm_removes_the_files_as_well(static: Path) -> None:
    with running_server(static) as server:
        server.get("/api/changes")
        server.process.terminate()
        assert server.process.wait(30) == 143
        assert not server.token_file.exists()


def test_the_login_file_leads_to_a_code_that_works_once(static: Path) -> None:
    with running_server(static) as server:
        text = server.login_file.read_text()
        assert server.token not in text
        address = re.search(r'href="([^"]+)"', text)
        assert address is not None
        url, _, code = address.group(1).partition("#")
        assert url == server.url
        with httpx.Client(base_url=server.url, headers={"Origin": server.url.rstrip("/")}) as client:
            answer = client.post("/login", json={"code": code})
            assert answer.status_code == 200
            assert client.get("/api/changes").status_code == 401
            session = {"X-Det-Session": answer.json()["session"]}
            assert client.get("/api/changes", headers=session).status_code == 200
        assert httpx.post(server.url + "login", json={"code": code}).status_code == 401


def test_two_servers_of_a_host_do_not_share_sessions(static: Path) -> None:
    with running_server(static) as first, running_server(static) as second:
        assert first.url != second.url
        assert (
            httpx.get(second.url + "api/changes", headers={"Authorization": f"Bearer {first.token}"}).status_code == 401
        )
        names = []
        for server in (first, second):
            answer = httpx.post(server.url + "login", json={"token": server.token})
            names += [cookie.name for cookie in answer.cookies.jar]
        assert len(set(names)) == 2


def test_servers_on_the_same_port_of_other_addresses_have_files_of_their_own(static: Path) -> None:
    with running_server(static) as first:
        port = httpx.URL(first.url).port
        with running_server(static, host="127.0.0.2", port=port) as second:
            assert first.token != second.token
            assert second.get("/api/changes")
        assert first.get("/api/changes")


def test_a_port_in_use_is_named(static: Path) -> None:
    with bound_socket("127.0.0.1", None) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            DeterminedError, match=f"port {port} is in use by another program: name another one with --port"
        ):
            bound_socket("127.0.0.1", port)
        with bound_socket("127.0.0.1", None) as other:
            assert other.getsockname()[1] != port
    with pytest.raises(DeterminedError, match=r"cannot listen on 203\.0\.113\.7"):
        bound_socket("203.0.113.7", 9)


def test_another_address_needs_an_option_and_its_name_is_answered(static: Path) -> None:
    with running_server(static, host="127.0.0.2", allow_hosts=["gpu-box"]) as server:
        assert server.url.startswith("http://127.0.0.2:")
        assert server.get("/api/changes")
        assert server.ask("GET", "/api/changes", Host="gpu-box:80").status_code == 200
        assert server.ask("GET", "/api/changes", Host="other-box").status_code == 403


def test_the_command_says_how_to_build_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from click.testing import CliRunner

    monkeypatch.setattr(serve, "is_built", lambda static: built_page.is_built(tmp_path))
    done = CliRunner().invoke(main, ["ui", "start", "--no-browser"])
    assert done.exit_code == 1
    assert "npm run build" in done.output


def test_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    monkeypatch.setitem(__import__("sys").modules, "fastapi", None)
    done = CliRunner().invoke(main, ["ui"])
    assert done.exit_code == 1
    assert 'pip install "determined-pytorch[ui]"' in done.output


def test_files_of_a_killed_server_do_not_stay_in_the_way(static: Path) -> None:
    port = free_port()  # not the default one, which another server takes as soon as it is free
    with running_server(static, port=port) as server:
        server.process.kill()
        server.process.wait()
        left = server.token_file.read_text()
    with running_server(static, port=port) as again:
        assert again.token != left.strip()
        assert os.path.dirname(again.token_file) == os.path.dirname(server.token_file)
