"""Run the server until Ctrl-C: choose a port, write the token to a private file, open the browser."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import html
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import uvicorn

from determined import paths
from determined.built_page import HOW_TO_BUILD, STATIC, is_built
from determined.errors import DeterminedError
from determined.web.app import create_app
from determined.web.asgi import App, Message, Receive, Scope, Send, send_json
from determined.web.client_connections import LimitedProtocol
from determined.web.guard import Guard, allowed_hosts, cookie_name
from determined.web.memory import share_memory_between_threads
from determined.web.sessions import CODE_SECONDS, Sessions

DEFAULT_PORT = 8642
_PORTS_TO_TRY = 20
_GRACE_SECONDS = 1  # for answers in progress, after Ctrl-C
# Connections that asyncio accepts at once, before `LimitedProtocol` counts them. The default could use all descriptors.
_BACKLOG = 64
# The head of a request that arrives in parts. Addresses contain names of metrics: one of 5,000 characters has 60,000
# bytes there. Every user of the machine can make the server hold so much for each connection, for seconds.
_MOST_HEAD_BYTES = 2**19


@dataclass(frozen=True)
class Started:
    """The address and the private files of a server that has been started."""

    url: str
    token_file: Path
    login_file: Path


def serve(
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow_hosts: Sequence[str] = (),
    open_browser: bool,
    announce: Callable[[Started], None],
    static: Path = STATIC,
) -> None:
    """Run the server until the process is interrupted. `announce` is called when the port is open.

    If a request is still in progress at the end, the process exits without waiting for it.
    """
    if not is_built(static):
        raise DeterminedError(HOW_TO_BUILD)
    share_memory_between_threads()
    try:
        _serve(host, port, allow_hosts, open_browser, announce, static)
    except SystemExit as ended:  # by SIGTERM
        _exit_if_busy(ended.code)
        raise
    _exit_if_busy(0)


def _serve(
    host: str,
    port: int | None,
    allow_hosts: Sequence[str],
    open_browser: bool,
    announce: Callable[[Started], None],
    static: Path,
) -> None:
    """Listen, write the private files, and serve until the end."""
    hosts = allowed_hosts(host, allow_hosts)
    with bound_socket(host, port) as listener:
        number: int = listener.getsockname()[1]
        sessions = Sessions()
        app = Guard(create_app(static=static), sessions, hosts, cookie_name(host, number))
        url = f"http://{_address(host)}:{number}/"
        # Machines may share the directory, and addresses of one machine may have servers on the same port.
        where = f"{socket.gethostname()}-{host.replace(':', '.')}-{number}"
        with private_file(f"token-{where}", sessions.token + "\n") as token_file:
            page = _login_page(f"{url}#{sessions.new_code()}")
            with private_file(f"login-{where}.html", page) as login_file:
                timer = threading.Timer(CODE_SECONDS, lambda: login_file.unlink(missing_ok=True))
                timer.daemon = True
                timer.start()
                announce(Started(url, token_file, login_file))
                if open_browser:
                    # In a thread: some browsers do not return before they are closed.
                    threading.Thread(target=webbrowser.open, args=[login_file.as_uri()], daemon=True).start()
                try:
                    _run(app, listener)
                finally:
                    timer.cancel()


def bound_socket(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on a port: the given one, or the first free one from the default on."""
    candidates = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TO_TRY), 0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in candidates:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise DeterminedError(f"cannot listen on {host}, port {candidate}: {error.strerror}") from error
        else:
            return listener
    raise DeterminedError(f"port {port} is in use by another program: name another one with --port, or none")


@contextlib.contextmanager
def private_file(name: str, content: str) -> Iterator[Path]:
    """Write a file that only its owner can read, and delete it at the end of the block."""
    directory = paths.made_private(paths.state_dir() / "ui")
    path = directory / name
    path.unlink(missing_ok=True)  # of a server that was killed
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(content)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _login_page(url: str) -> str:
    """Return an HTML page that redirects to the address of the server, which contains a one-time code.

    The browser is started with the path of this page, because other users of the machine can see its arguments. The
    code is behind a `#`, so browsers do not send it, neither to the server nor as the referrer.
    """
    address = html.escape(url, quote=True)
    return (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={address}"><title>det ui</title>'
        f'<p><a href="{address}">Open the page</a>\n'
    )


def _address(host: str) -> str:
    """Return the host for a URL: a server that listens on all addresses is reached by loopback from here."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host


def _run(app: Guard, listener: socket.socket) -> None:
    """Run the server until it is interrupted."""
    config = uvicorn.Config(
        _without_stack_traces(app),
        loop="asyncio",
        http=LimitedProtocol,
        ws="none",
        log_level="error",  # a warning for each malformed request would let others fill the terminal
        access_log=False,  # addresses may contain what only the user should see
        server_header=False,
        proxy_headers=False,  # a header must not change who the client seems to be
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    # uvicorn ends by raising the signal again: SIGTERM then raises SystemExit, so that the private files are removed.
    before = signal.signal(signal.SIGTERM, _end)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # the usual end
    finally:
        signal.signal(signal.SIGTERM, before)


def _without_stack_traces(app: Guard) -> App:
    """Return an application that answers a request that shutdown cancels with 503, without a stack trace."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def noted(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await app(scope, receive, noted)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise
            if not began:
                await send_json(send, 503, {"error": "the server was ended", "hint": "start det ui again"})

    return answer


def _exit_if_busy(code: str | int | None) -> None:
    """Exit now if a thread still handles a request: Python would wait for it, for minutes if the store is locked.

    That is safe: everything that writes to the store or to checkpoints may be killed at any time.
    """
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _end(number: int, frame: object) -> NoReturn:
    """Signal handler: exit with the code that a shell expects for the signal."""
    sys.exit(128 + number)
