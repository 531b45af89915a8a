"""The page in distributions and installations: with Node, without it, without the registry of npm or any network."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers.ranks import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = "determined/web/static/page.js"
NO_REGISTRY = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_fetch_retries": "0"}
"""Nothing listens on this port, so that npm gets no package."""

_needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing: install Node.js with npm")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return directories for the caches of npm, Node and pip."""
    for name in ("HOME", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the files that git tracks, as a fresh clone has them: without the built page."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=-1, check=True).stdout.decode()
    place = tmp_path / "clone"
    for name in filter(None, listed.split("\0")):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():  # not deleted since the last commit
            shutil.copy2(ROOT / name, place / name)
    assert not (place / "src" / PAGE).exists()
    return place


@pytest.fixture
def without_node(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has all programs of the system but Node and npm."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name not in ("node", "nodejs", "npm", "npx") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    return {"PATH": str(programs)}


def build(place: Path, call: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Call a hook of the build backend in a source tree, as pip does."""
    program = f"import json, hatchling.build as backend; print('\\n' + json.dumps(backend.{call}))"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=place,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def pip_into(place: Path) -> list[str]:
    """Create an empty environment, and return the command that installs into it."""
    venv.create(place, symlinks=True)
    return [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install"]


def result(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a hook printed, which is its result."""
    assert done.returncode == 0, done.stdout
    return str(done.stdout.splitlines()[-1])


@_needs_npm
def test_a_source_distribution_has_the_page_and_is_built_and_installed_without_node_and_network(
    clone: Path, without_node: dict[str, str], tmp_path: Path
) -> None:
    archive = clone / "dist" / json.loads(result(build(clone, "build_sdist('dist')", {})))
    with tarfile.open(archive) as opened:
        names = opened.getnames()
        opened.extractall(tmp_path / "unpacked", filter="data")
    assert [name for name in names if name.endswith(PAGE)]
    assert not [name for name in names if "node_modules" in name]

    (source,) = (tmp_path / "unpacked").iterdir()
    assert "nodejs" not in result(build(source, "get_requires_for_build_wheel()", without_node))
    wheel = source / "dist" / json.loads(result(build(source, "build_wheel('dist')", {**without_node, **NO_REGISTRY})))
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(PAGE) == (clone / "src" / PAGE).read_bytes()

    installed = tmp_path / "installed"
    subprocess.run([*pip_into(installed), "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    libraries = Path(sysconfig.get_path("purelib", vars={"base": str(installed)}))
    # The requirements come from the environment of the tests: this test is about the wheel, not about theirs.
    (libraries / "requirements.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n", encoding="utf-8"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {**os.environ, **without_node, "HOME": str(elsewhere), "DET_DATA_DIR": str(elsewhere / "data")}
    where = [str(installed / "bin" / "python"), "-c", "import determined; print(determined.__file__)"]
    found = subprocess.run(where, cwd=elsewhere, env=environment, stdout=-1, text=True, check=True).stdout.strip()
    assert Path(found).is_relative_to(installed)
    assert_the_page_is_served(installed / "bin" / "det", elsewhere, environment)


def assert_the_page_is_served(det: Path, place: Path, environment: dict[str, str]) -> None:
    """Run `det ui` in a directory, and ask it for the page and for data."""
    command = [str(det), "ui", "--no-browser", "--json", "--port", str(free_port())]
    process = subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        url = said["url"].rstrip("/")

        def fetch(path: str, **headers: str) -> str:
            answer: http.client.HTTPResponse
            with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers)) as answer:
                return answer.read().decode()

        assert "page.js" in fetch("/")
        assert len(fetch("/static/page.js")) > 10_000
        token = Path(said["token_file"]).read_text().strip()
        assert "version" in json.loads(fetch("/api/changes", Authorization=f"Bearer {token}"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_a_clone_without_node_gets_it_from_pypi_while_it_is_built(
    clone: Path, without_node: dict[str, str], tmp_path: Path
) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    environment = {**os.environ, **without_node, "PIP_CONSTRAINT": str(clone / "constraints.txt")}
    subprocess.run([*pip, "--wheel-dir", str(tmp_path / "dist"), str(clone)], env=environment, check=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        assert len(packed.read(PAGE)) > 10_000


@_needs_npm
def test_without_the_registry_of_npm_an_editable_install_succeeds_and_says_what_is_missing(
    clone: Path, tmp_path: Path
) -> None:
    command = [*pip_into(tmp_path / "installed"), "--verbose", "--no-deps", "--editable", str(clone)]
    environment = {**os.environ, **NO_REGISTRY, "PIP_CONSTRAINT": str(clone / "constraints.txt")}
    done = subprocess.run(command, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert "The web page was not built" in done.stdout
    assert "`make page` builds it" in done.stdout
    failed = build(clone, "build_wheel('dist')", NO_REGISTRY)
    assert failed.returncode != 0
    assert "A wheel without it would lack `det ui`" in failed.stdout


@_needs_npm
def test_the_page_is_built_again_after_a_change_only(clone: Path) -> None:
    result(build(clone, "build_wheel('dist')", {}))
    built = clone / "src" / PAGE
    first = built.stat().st_mtime_ns
    result(build(clone, "build_wheel('dist')", NO_REGISTRY))
    assert built.stat().st_mtime_ns == first
    source = clone / "page" / "src" / "main.tsx"
    source.write_text(source.read_text() + "\nconsole.log('changed in a test');\n")
    result(build(clone, "build_wheel('dist')", {}))
    assert "changed in a test" in built.read_text()
