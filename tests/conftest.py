"""The environment of every test: separate data directories, one thread for each process, and a check for leaks."""

from __future__ import annotations

import gc
import getpass
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psutil
import pytest

from tests.helpers import leaks

REPOSITORY = Path(__file__).resolve().parents[1]

# All directories of tests together hold 1.2 GB, and their processes need memory as well.
BYTES_OF_TESTS = 6 * 1024**3

# Files with tests that take 5 s or more.
WITH_LONG_TESTS = (
    "tests/docs/test_contributing.py",
    "tests/docs/test_how_to.py",
    "tests/docs/test_sphinx.py",
    "tests/docs/test_tutorial.py",
    "tests/examples/test_example_runs.py",
    "tests/experiment/creation/test_entrypoints.py",
    "tests/experiment/test_examples.py",
    "tests/experiment/runner/test_killed_runners.py",
    "tests/queue/test_foreground_slots.py",
    "tests/queue/test_sharing.py",
    "tests/store/databases/test_processes.py",
    "tests/store/test_repeated_changes.py",
)

# Files that other programs create in the home or temporary directory and keep there, by the test file that runs them.
LEFT_BY_OTHER_PROGRAMS = {
    "tests/docs/test_tutorial.py": ("torchelastic_*",),  # torchrun keeps the logs of its ranks
    "tests/sinks/test_wandb.py": ("*",),  # caches, settings and logs of the client of Weights & Biases
}

# A property must hold on a busy machine as well, where a single example can take long.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

os.environ["OMP_NUM_THREADS"] = "1"  # children of tests share few cores

# A shell ignores SIGINT in its background jobs, and nohup ignores SIGHUP: children would inherit that.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    """Put the directories of tests in memory if there is space: calls of fsync, of which there are thousands, return at
    once.
    """
    memory = Path("/dev/shm")
    if config.option.basetemp is None and memory.is_dir() and os.access(memory, os.W_OK):
        free = min(shutil.disk_usage(memory).free, psutil.virtual_memory().available)
        if free >= BYTES_OF_TESTS:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection during collection, and keep the rewritten test modules for the next process.

    Every worker imports all test modules. Importing creates almost no garbage, and rewriting the assertions takes
    longer than everything else; PYTHONDONTWRITEBYTECODE, which many containers set, would keep pytest from storing
    them.
    """
    wanted, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # later collections skip the modules and test items
        gc.enable()
        sys.dont_write_bytecode = wanted


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the files with long tests first: one that starts last would keep a single worker busy at the end."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(WITH_LONG_TESTS))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Count what a fixture of a class, a module or the session starts as shared by all tests that use it."""
    if fixturedef.scope == "function":
        return (yield)
    with leaks.shared():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def home_and_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give this process a separate HOME and TMPDIR, so that only its tests can leave a file there."""
    # torch.compile caches its results in the temporary directory: all processes continue to share that cache.
    compiled = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    compiled.mkdir(exist_ok=True)
    directories = [tmp_path_factory.getbasetemp() / name for name in ("home", "tmp")]
    with pytest.MonkeyPatch.context() as patch:
        for name, directory in zip(("HOME", "TMPDIR"), directories, strict=True):
            directory.mkdir()
            patch.setenv(name, str(directory))
        (directories[1] / compiled.name).symlink_to(compiled)
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(compiled))  # importing torch.compile would set it
        patch.setattr(tempfile, "tempdir", None)  # is looked up once, and cached
        leaks.watch(REPOSITORY, Path.cwd(), *directories)
        yield


@pytest.fixture(autouse=True)
def leaves_nothing_behind(
    request: pytest.FixtureRequest, home_and_temporary_directory: None, tmp_path: Path
) -> Iterator[None]:
    """Fail a test that leaves processes, threads, a process group, variables or files behind.

    Other fixtures of every test depend on this one, so that it checks after all of them have been torn down.
    """
    before = leaks.take()
    yield
    time.tzset()  # a test may have set TZ, which is now restored
    allowed_files = LEFT_BY_OTHER_PROGRAMS.get(f"tests/{request.path.parent.name}/{request.path.name}", ())
    if left := leaks.found(before, tmp_path, allowed_files):
        pytest.fail("the test left something behind:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def data_home(leaves_nothing_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this test a separate `XDG_DATA_HOME`, and hide the variables of an outer run."""
    for name in list(os.environ):
        if name.startswith("DET_"):
            monkeypatch.delenv(name)
    home = tmp_path / "xdg-data"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))  # tests do not wait for each other's slots
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))  # notebook kernels write there, by default into HOME
    return home


@pytest.fixture(autouse=True)
def root_logger_level(leaves_nothing_behind: None) -> Iterator[None]:
    """Restore the level of the root logger after a test."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)
