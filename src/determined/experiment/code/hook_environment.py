"""The virtual environment of an experiment, in which its startup hook installs packages and its trials run.

All packages of the interpreter that runs `det` are visible in it: a `.pth` file adds its site-packages, which also
makes editable installs and parent virtual environments visible. Packages that the hook installs go into this
environment only and take precedence. pip comes from the parent, because installing it would take several seconds for
each experiment.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from determined.checkpoint_storage.files import make_private
from determined.errors import StartupHookError

_DISTRIBUTION = "determined-pytorch"
_SKIP = "or skip the hook with --no-startup-hook"
_REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Variables that would make pip or Python use another location than this environment.
_MISLEADING = ("PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "__PYVENV_LAUNCHER__")


@dataclass(frozen=True)
class HookEnvironment:
    """A virtual environment in a directory of the experiment."""

    directory: Path

    @property
    def root(self) -> Path:
        """Return the directory of the virtual environment."""
        return self.directory / "venv"

    @property
    def bin(self) -> Path:
        """Return the `bin` directory of the virtual environment."""
        return self.root / "bin"

    @property
    def python(self) -> Path:
        """Return the Python interpreter of the virtual environment."""
        return self.bin / "python"

    def variables(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that select this environment, for a process that otherwise has those of `outer`."""
        # As a URL, because pip splits the variable at spaces, which the path may contain.
        constraints = [self._constraints.as_uri(), outer.get("PIP_CONSTRAINT", "")]
        return {
            "VIRTUAL_ENV": str(self.root),
            "PATH": os.pathsep.join([str(self.bin), outer.get("PATH", os.defpath)]),
            "PIP_CONSTRAINT": " ".join(filter(None, constraints)),
            "PYTHONUSERBASE": str(self.directory / "user"),
        }

    @staticmethod
    def unset() -> frozenset[str]:
        """Return the variables that must not be set for processes that use this environment."""
        return frozenset(_MISLEADING)

    def build(self) -> None:
        """Create the environment from scratch.

        Raises StartupHookError if this Python cannot create virtual environments.
        """
        try:
            import venv
        except ImportError:
            raise StartupHookError(
                f"startup-hook.sh needs a virtual environment, and {sys.executable} has no module venv: "
                f"install it (Debian: apt install python3-venv), {_SKIP}"
            ) from None
        # Packages that an interrupted or outdated hook installed must not be found.
        for old in (self.root, self.directory / "user"):
            shutil.rmtree(old, ignore_errors=True)
        try:
            # System packages are visible, after those of the parent; otherwise pip rejects --user.
            venv.EnvBuilder(system_site_packages=True, symlinks=True).create(self.root)
        except (OSError, subprocess.SubprocessError) as error:
            raise StartupHookError(f"no virtual environment can be created in {self.root}: {error}; {_SKIP}") from error
        self._add_parent_packages()
        self._provide_pip()
        self._write_constraints()
        make_private(self.root)

    @property
    def _constraints(self) -> Path:
        return self.directory / "constraints.txt"

    def _add_parent_packages(self) -> None:
        """Make the packages of the current interpreter visible in this environment."""
        purelib = Path(sysconfig.get_path("purelib", "venv", {"base": str(self.root)}))
        # As ASCII, because older Pythons read these files in the encoding of the locale.
        # Each place is added by site, which also reads its own .pth files, as editable installs need.
        lines = [f"import site; site.addsitedir({place!a})" for place in parent_packages()]
        (purelib / "determined_parent.pth").write_text("\n".join(lines) + "\n", encoding="ascii")

    def _provide_pip(self) -> None:
        """Make `pip` install into this environment; without any pip, write a script that explains what is missing."""
        if importlib.util.find_spec("pip") is not None:
            # -P: modules of the model directory must not shadow those that pip imports.
            command = f'exec {shlex.quote(str(self.python))} -P -m pip "$@"'
        elif self._install_pip():
            return
        else:
            advice = f"{sys.executable} has neither pip nor ensurepip: install pip there (python3-pip), {_SKIP}"
            command = f"echo pip: {shlex.quote(advice)} >&2; exit 1"
        for name in ("pip", "pip3", f"pip{sys.version_info.major}.{sys.version_info.minor}"):
            script = self.bin / name
            script.write_text(f"#!/bin/sh\n{command}\n")
            script.chmod(0o700)

    def _install_pip(self) -> bool:
        """Install pip from the interpreter's own copy; return whether that succeeded."""
        if importlib.util.find_spec("ensurepip") is None:
            return False
        # Isolated: the variables of the user must not lead ensurepip elsewhere.
        argv = [str(self.python), "-I", "-m", "ensurepip", "--upgrade", "--default-pip"]
        return subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0

    def _write_constraints(self) -> None:
        """Pin torch, numpy and this library's dependencies to their installed versions."""
        # A hook that upgrades these could break the library itself.
        names = {"torch", "numpy"}
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            required = importlib.metadata.requires(_DISTRIBUTION) or []
            # Requirements of extras are not installed with the library.
            names |= {match[0] for text in required if "extra ==" not in text and (match := _name(text))}
        lines = []
        for name in sorted(names):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                lines.append(f"{name}=={importlib.metadata.version(name)}\n")
        self._constraints.write_text("".join(lines))
        self._constraints.chmod(0o600)


def parent_packages() -> list[str]:
    """Return the site-packages directories of this interpreter, with those of the user if it uses them."""
    places = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return [place for place in places if os.path.isdir(place)]


def _name(requirement: str) -> re.Match[str] | None:
    """Match the name of the package at the beginning of a requirement."""
    return _REQUIREMENT_NAME.match(requirement)
