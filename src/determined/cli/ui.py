"""The commands `det ui` and `det ui export`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, print_json_line, with_json
from determined.cli.display.safe_text import visible
from determined.cli.file_operations import refuse_existing
from determined.cli.groups import LazyGroup
from determined.cli.store_access import opened_store

if TYPE_CHECKING:
    from determined.web.serve import Started


_HERE = "determined.cli.ui"


@click.group(
    cls=LazyGroup,
    commands_in={
        "start": (_HERE, "Start the page, and open it in a browser."),
        "export": (_HERE, "Write a view of the page as one HTML file."),
    },
    aliases={},
    default="start",
)
def ui() -> None:
    """Browse, compare and control runs in a web browser.

    \b
    Example: det ui
    """


@click.command(cls=Command, action="show the page")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (default: a free one from 8642 on).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--allow-host", "allow_hosts", metavar="NAME", multiple=True, help="Also answer to this host name (repeatable)."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@with_json
def start(port: int | None, host: str, allow_hosts: tuple[str, ...], no_browser: bool, form: Form) -> None:
    """Start the page, and open it in a browser.

    The page shows the store that DET_STORE names, live and afterwards. It is reachable from this machine only, asks for
    a token, and runs until Ctrl-C; experiments continue without it.

    \b
    Example: det ui start --no-browser --port 8642
    """
    _require_packages()
    from determined.web.serve import serve

    def announce(started: Started) -> None:
        if form == "json":
            print_json_line({"url": started.url, "token_file": str(started.token_file)})
            return
        click.echo(f"The page is at {started.url} (Ctrl-C ends it)")
        click.echo(visible(f"To log in within a minute, open {started.login_file}"))
        click.echo(visible(f"To log in later, or through ssh -L, paste the token in {started.token_file}"))
        click.echo(
            "If the browser does not find the first file, as those of Snap and Flatpak: open the page, paste the token"
        )

    serve(
        host=host,
        port=port,
        allow_hosts=allow_hosts,
        open_browser=not no_browser and _has_browser(),
        announce=announce,
    )


@click.command(cls=Command, action="export {address}")
@click.argument("address")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="HTML file to write.")
@with_json
def export(address: str, output: Path, form: Form) -> None:
    """Write a view of the page as one HTML file.

    It opens in any browser, without a server. ADDRESS is the part of the page's address after the host. The file must
    not exist yet.

    \b
    Example: det ui export /experiments/3 -o search.html
    """
    _require_packages()
    from determined.built_page import STATIC
    from determined.web.app import create_app
    from determined.web.export import export_page

    refuse_existing(output)
    with opened_store():  # a store that cannot be read fails the command, instead of being the content of the file
        app = create_app()
    try:
        content = export_page(app, STATIC, address if address.startswith("/") else f"/{address}")
    finally:
        app.state.server.close()
    output.write_bytes(content)
    if form == "json":
        print_json({"path": str(output), "bytes": len(content)})
    else:
        click.echo(visible(str(output)))


def _require_packages() -> None:
    """Raise an error that names the extra if a package is missing."""
    from determined.optional import require

    for module in ("fastapi", "uvicorn", "orjson"):
        require(module, extra="ui", purpose="det ui")


def _has_browser() -> bool:
    """Return whether a browser with a window can be opened: one in this terminal would take it over."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
