"""A startup hook alone: where it installs, what it leaves, how often it runs, and how it fails."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from determined import paths
from determined.config.stored import StoredConfig
from determined.errors import StartupHookError
from determined.experiment.code import startup_hook
from determined.experiment.code.hook_script import HookStopped
from determined.experiment.files import ExperimentFiles
from tests.helpers.waiting import wait_for_end, wait_for_text

PREPARE = """
from determined.config.stored import StoredConfig
from determined.experiment.code import startup_hook
from determined.experiment.files import ExperimentFiles
startup_hook.prepare(ExperimentFiles.for_key("key"), StoredConfig({"startup_hook": True}), say=print)
"""

MakeHook = Callable[[str], ExperimentFiles]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return a home directory: pip asks for the version of rustc, which may create its settings there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


@pytest.fixture
def make_hook() -> MakeHook:
    """Return the function make_hook(text), which creates the files of an experiment that has this hook."""

    def make(text: str) -> ExperimentFiles:
        files = ExperimentFiles.for_key("key")
        files.code.mkdir(exist_ok=True)
        (files.code / "startup-hook.sh").write_text(text)
        return files

    return make


def write_wheel(directory: Path, name: str, version: str) -> None:
    """Write a package that pip can install without a network."""
    info = f"{name}-{version}.dist-info"
    about = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f"VERSION = {version!r}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", about)
        wheel.writestr(f"{info}/RECORD", "")


def run_python(files: ExperimentFiles, code: str) -> str:
    """Run code as a trial would, and return its output."""
    hook = startup_hook.prepare(files, StoredConfig({}))
    assert hook is not None
    interpreter = hook.interpreter()
    environment = interpreter.environment(os.environ)
    done = subprocess.run([interpreter.python, "-c", code], env=environment, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_packages_go_to_the_environment_of_the_experiment_alone(make_hook: MakeHook) -> None:
    files = make_hook(
        "pip install --no-index ./plain_package-1-py3-none-any.whl\n"
        "python3 -m pip install --no-index --user ./user_package-1-py3-none-any.whl\n"
    )
    write_wheel(files.code, "plain_package", "1")
    write_wheel(files.code, "user_package", "1")
    code = "import plain_package, user_package, determined, numpy; print(plain_package.__file__, user_package.__file__)"
    for place in run_python(files, code).split():
        assert Path(place).is_relative_to(files.root / "startup-hook")
    for name in ("plain_package", "user_package"):
        assert importlib.util.find_spec(name) is None


@pytest.mark.parametrize("quiet", ["", "--quiet"])
def test_torch_and_our_dependencies_stay_at_their_versions(make_hook: MakeHook, quiet: str) -> None:
    files = make_hook(f"pip install {quiet} --no-index ./numpy-1.0-py3-none-any.whl\n")
    write_wheel(files.code, "numpy", "1.0")
    with pytest.raises(StartupHookError) as failed:
        startup_hook.prepare(files, StoredConfig({}))
    message = str(failed.value)
    assert message.startswith("startup-hook.sh failed with exit code 1: ")
    assert ("(constraint) numpy==" in message) is not bool(quiet)
    assert "remove their version numbers from the requirements" in message
    constraints = (files.root / "startup-hook" / "constraints.txt").read_text()
    names = {line.partition("==")[0] for line in constraints.splitlines()}
    assert {"torch", "numpy", "click", "pydantic"} <= names
    assert "pytest" not in names  # of an extra


def test_another_package_named_determined_is_refused(make_hook: MakeHook) -> None:
    files = make_hook('cd "$VIRTUAL_ENV"/lib/python*/site-packages; mkdir determined; touch determined/__init__.py\n')
    with pytest.raises(StartupHookError, match=r"`import determined` finds .*startup-hook/venv/.*remove what installs"):
        startup_hook.prepare(files, StoredConfig({}))
    assert not (files.root / "startup-hook" / "record.json").exists()


def test_what_it_exports_and_where_it_ends(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is sourced; `exit 0` ends it, and variables that it exported before are kept."""
    monkeypatch.setenv("REMOVED", "by the hook")
    monkeypatch.setenv("KEPT", "as it is")
    monkeypatch.setenv("DET_TRIAL_ID", "7")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    files = make_hook(
        'echo "trial ${DET_TRIAL_ID-none}, target ${PIP_TARGET-none}, base $PYTHONUSERBASE"\n'
        "NOT_EXPORTED=1\n"
        "export PYTHONPATH=$PWD/src GIVEN=$GIVEN/changed\n"
        "export LINES_=$'two\\nlines' \n"
        "unset REMOVED\nmkdir src; cd src\nset -u\nexit 0\nexport NEVER=1\n"
    )
    variables = ["GIVEN=configured", "OTHER=1", "REMOVED=configured"]
    config = StoredConfig({"environment": {"environment_variables": variables}})
    hook = startup_hook.prepare(files, config)
    assert hook is not None
    (line,) = (text for _, text in hook.output())
    assert line == f"trial none, target none, base {files.root}/startup-hook/user"
    trial = Path("/trials/3")
    assert hook.variables(config, trial) == {
        "GIVEN": "configured/changed",
        "OTHER": "1",
        "PYTHONPATH": "/trials/3/src",
        "LINES_": "two\nlines",
    }
    assert hook.inside(trial) == trial / "src"
    environment = hook.interpreter().environment(os.environ)
    assert environment["VIRTUAL_ENV"] == f"{files.root}/startup-hook/venv"
    assert environment["PATH"].startswith(f"{files.root}/startup-hook/venv/bin{os.pathsep}")
    assert environment["KEPT"] == "as it is"
    assert "REMOVED" not in environment
    assert "KEPT" not in (files.root / "startup-hook" / "record.json").read_text()


def test_a_directory_outside_is_taken_as_it_is(make_hook: MakeHook, tmp_path: Path) -> None:
    hook = startup_hook.prepare(make_hook(f"cd {tmp_path}\n"), StoredConfig({}))
    assert hook is not None
    assert hook.inside(Path("/trials/3")) == tmp_path


def test_it_runs_once_until_its_content_or_the_interpreter_changes(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    said: list[str] = []

    def prepare(text: str) -> int:
        hook = startup_hook.prepare(make_hook(text), StoredConfig({}), say=said.append)
        assert hook is not None
        return len(count.read_text().split())

    once = f"echo run >> {count}\n"
    assert (prepare(once), prepare(once)) == (1, 1)
    assert len(said) == 2
    assert str(paths.data_dir()) in said[0]
    assert prepare(once + "true\n") == 2
    assert "run again" in said[2]
    monkeypatch.setattr(sys, "version", "4.0 (another Python)")
    assert prepare(once + "true\n") == 3
    (paths.data_dir() / "experiments" / "key" / "startup-hook" / "record.json").write_text("{")
    assert prepare(once + "true\n") == 4


def test_a_failure_is_shown_without_secrets_and_leaves_no_record(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTER_PASSWORD", "known-before")
    files = make_hook(
        "set -x\nexport MY_TOKEN=known-after-it\nset +x\n"
        'echo "a $OUTER_PASSWORD b $MY_TOKEN c postgresql://me:pass-word@host/db"\n'
        "for i in $(seq 30); do echo line $i; done\necho 'it is broken' >&2\nfalse\necho never\n"
    )
    with pytest.raises(StartupHookError) as failed:
        startup_hook.prepare(files, StoredConfig({}))
    assert failed.value.summary == "startup-hook.sh failed with exit code 1: it is broken"
    assert "\n    line 30\n    it is broken" in str(failed.value)
    assert "never" not in str(failed.value)
    log = (files.root / "startup-hook" / "output.log").read_text()
    assert "a ******** b ******** c postgresql://me:********@host/db" in log
    for secret in ("known-before", "known-after-it", "pass-word"):
        assert secret not in log
    assert not (files.root / "startup-hook" / "record.json").exists()


def test_only_the_owner_can_read_what_it_exported(make_hook: MakeHook) -> None:
    files = make_hook("export API_KEY=0123456789\necho $API_KEY\n")
    hook = startup_hook.prepare(files, StoredConfig({}))
    assert hook is not None
    assert [text for _, text in hook.output()] == ["********"]
    home = files.root / "startup-hook"
    assert json.loads((home / "record.json").read_text())["variables"]["API_KEY"] == "0123456789"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.iterdir()) if path.name != "work"}
    assert modes == {
        "startup-hook": 0o700,
        "venv": 0o700,
        "record.json": 0o600,
        "output.log": 0o600,
        "constraints.txt": 0o600,
        "lock": 0o600,
    }


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("venv", r"has no module venv: install it \(Debian: apt install python3-venv\), or skip"),
        ("pip", "pip: .* has neither pip nor ensurepip: install pip there"),
        ("bash", "startup-hook.sh needs bash, which is not installed"),
    ],
)
def test_what_is_missing_is_one_line(
    make_hook: MakeHook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str, message: str
) -> None:
    if missing == "bash":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        for name in (missing, "ensurepip"):
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StartupHookError, match=message) as failed:
        startup_hook.prepare(make_hook("pip install something\n"), StoredConfig({}))
    assert "\n" not in failed.value.summary


def test_no_hook_costs_nothing(make_hook: MakeHook) -> None:
    files = make_hook("false")
    assert startup_hook.prepare(files, StoredConfig({"startup_hook": False})) is None
    (files.code / "startup-hook.sh").unlink()
    assert startup_hook.prepare(files, StoredConfig({})) is None
    assert {path.name for path in files.root.iterdir()} == {"code"}


def start() -> subprocess.Popen[str]:
    """Run the hook in another process."""
    return subprocess.Popen([sys.executable, "-u", "-c", PREPARE], stdout=subprocess.PIPE, text=True)


def test_two_processes_at_the_same_time(make_hook: MakeHook, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    files = make_hook(f"echo run >> {tmp_path}/count\nread word < {tmp_path}/go\nexport WORD=$word\n")
    with start() as first, start() as second:
        said = [process.stdout.readline() for process in (first, second) if process.stdout is not None]
        assert sum("waiting for another process" in line for line in said) == 1
        (tmp_path / "go").write_text("now\n")
        assert (first.wait(30), second.wait(30)) == (0, 0)
    assert (tmp_path / "count").read_text() == "run\n"
    assert json.loads((files.root / "startup-hook" / "record.json").read_text())["variables"] == {"WORD": "now"}


def test_killed_during_the_hook_nothing_is_left_running_and_it_starts_over(make_hook: MakeHook, tmp_path: Path) -> None:
    files = make_hook(
        f"touch half-done; [ -e {tmp_path}/second ] && exit 0\n"
        f"setsid sleep 600 & echo $! > {tmp_path}/daemon; echo $$ > {tmp_path}/shell; sleep 600\n"
    )
    with start() as process:
        shell = wait_for_text(tmp_path / "shell")
        os.kill(process.pid, signal.SIGKILL)
    wait_for_end(int(shell), int((tmp_path / "daemon").read_text()))
    (tmp_path / "second").touch()
    (files.root / "startup-hook" / "work" / "remnant").touch()
    hook = startup_hook.prepare(files, StoredConfig({}))
    assert hook is not None
    assert sorted(path.name for path in hook.work.iterdir()) == ["half-done", "startup-hook.sh"]


def test_background_processes_end_with_the_hook_and_a_wish_stops_it(make_hook: MakeHook, tmp_path: Path) -> None:
    startup_hook.prepare(make_hook(f"setsid sleep 600 >/dev/null 2>&1 & echo $! > {tmp_path}/left"), StoredConfig({}))
    wait_for_end(int((tmp_path / "left").read_text()))
    files = make_hook(f"echo $$ > {tmp_path}/shell; sleep 600")
    with pytest.raises(HookStopped):
        startup_hook.prepare(files, StoredConfig({}), stopped=(tmp_path / "shell").exists)
    wait_for_end(int(wait_for_text(tmp_path / "shell")))
