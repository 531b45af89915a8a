"""Which program a process runs, tested in real processes that were started in many ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from determined.user_code.program import this_program

SHOW = """
import json, sys
from determined.user_code.program import this_program
def show():
    program = this_program()
    print(json.dumps([program.kind, None if program.file is None else str(program.file), program.module]), flush=True)
"""

# The state of IPython in a kernel: cells run in a `__main__` without a file, started by a shared script.
KERNEL = """
import json, os, sys, types
fake = types.ModuleType("IPython")
shell = types.SimpleNamespace(kernel=object())
fake.get_ipython = lambda: shell
sys.modules["IPython"] = fake
cell = sys.argv[1]
main = types.ModuleType("__main__")
sys.modules["__main__"] = main
exec(cell, main.__dict__)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a script and a package that print which program they are."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "tool").mkdir()
    (tmp_path / "showing.py").write_text(SHOW)
    call = "from showing import show\nif __name__ == '__main__': show()\n"
    for name in ("script.py", "pkg/mod.py", "pkg/__main__.py"):
        (tmp_path / name).write_text(call)
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "tool" / "__main__.py").write_text(call)
    (tmp_path / "link.py").symlink_to("script.py")
    (tmp_path / "spawning.py").write_text(
        "import multiprocessing\nfrom showing import show\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=show)\n"
        "    child.start(); child.join()\n"
    )
    return tmp_path


def run(place: Path, *words: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Any:
    ran = subprocess.run(
        [sys.executable, *words],
        input=stdin,
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd or place,
        check=True,
        env={**os.environ, "PYTHONPATH": str(place), **env},
    )
    return json.loads(ran.stdout.splitlines()[0])


def test_scripts_and_modules(place: Path) -> None:
    script = str(place / "script.py")
    assert run(place, "script.py") == ["script", script, None]
    assert run(place, script, cwd=Path("/")) == ["script", script, None]
    assert run(place, "link.py") == ["script", script, None]
    assert run(place, "-m", "cProfile", "script.py") == ["script", script, None]
    assert run(place, "tool") == ["script", str(place / "tool" / "__main__.py"), None]
    assert run(place, "-m", "pkg.mod") == ["module", str(place / "pkg" / "mod.py"), "pkg.mod"]
    assert run(place, "-m", "pkg") == ["module", str(place / "pkg" / "__main__.py"), "pkg.__main__"]


def test_code_without_a_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place))  # an interactive interpreter writes its history there
    call = "from showing import show; show()"
    assert run(place, "-c", call) == ["interactive", None, None]
    assert run(place, "-", stdin=call) == ["interactive", None, None]
    assert run(place, "-i", "-q", stdin=call + "\n") == ["interactive", None, None]


def test_a_spawned_process_is_the_program_that_spawned_it(place: Path) -> None:
    assert run(place, "spawning.py") == ["script", str(place / "spawning.py"), None]


def test_launchers_and_shared_workers_are_no_program(place: Path) -> None:
    (place / "joblib").mkdir()
    (place / "joblib" / "__init__.py").touch()
    (place / "joblib" / "worker.py").write_text("from showing import show\nshow()\n")
    assert run(place, "-m", "joblib.worker") == ["interactive", None, None]


class TestNotebooks:
    """`ipykernel_launcher.py` runs all notebooks: the notebook's own file distinguishes them."""

    @pytest.fixture
    def notebook(self, place: Path) -> Path:
        (place / "ipykernel_launcher.py").write_text(KERNEL)
        notebook = place / "a notebook.ipynb"
        notebook.write_text("{}")
        return notebook

    CELL = "from showing import show; show()"

    def test_jupyter(self, place: Path, notebook: Path) -> None:
        shown = run(place, "ipykernel_launcher.py", self.CELL, JPY_SESSION_NAME=str(notebook))
        assert shown == ["notebook", str(notebook), None]

    def test_visual_studio_code(self, place: Path, notebook: Path) -> None:
        cell = f"__vsc_ipynb_file__ = {str(notebook)!r}\n{self.CELL}"
        other = str(place / "script.py")
        assert run(place, "ipykernel_launcher.py", cell, JPY_SESSION_NAME=other) == ["notebook", str(notebook), None]

    def test_no_notebook_is_known(self, place: Path, notebook: Path) -> None:
        assert run(place, "ipykernel_launcher.py", self.CELL) == ["notebook", None, None]
        console = str(place / "Console 1")
        assert run(place, "ipykernel_launcher.py", self.CELL, JPY_SESSION_NAME=console) == ["notebook", None, None]

    def test_a_kernel_started_in_a_notebook_is_another_program(self, place: Path, notebook: Path) -> None:
        starting = (
            "import subprocess, sys\n"
            f"subprocess.run([sys.executable, {str(place / 'ipykernel_launcher.py')!r}, {self.CELL!r}], check=True)\n"
        )
        shown = run(place, "ipykernel_launcher.py", starting, JPY_SESSION_NAME=str(notebook))
        assert shown == ["notebook", None, None]

    def test_a_script_started_in_a_notebook_is_a_script(self, place: Path, notebook: Path) -> None:
        shown = run(place, "script.py", JPY_SESSION_NAME=str(notebook))
        assert shown == ["script", str(place / "script.py"), None]

    def test_a_process_that_a_notebook_spawned(self, place: Path, notebook: Path) -> None:
        spawning = (
            "import multiprocessing\nfrom showing import show\n"
            "child = multiprocessing.get_context('spawn').Process(target=show)\n"
            "child.start(); child.join()\n"
        )
        shown = run(place, "ipykernel_launcher.py", spawning, JPY_SESSION_NAME=str(notebook))
        assert shown == ["notebook", str(notebook), None]

    def test_a_real_kernel(self, place: Path, notebook: Path) -> None:
        """Only where ipykernel is installed."""
        pytest.importorskip("ipykernel")
        client = pytest.importorskip("jupyter_client")
        (place / "ipykernel_launcher.py").unlink()
        environment = {**os.environ, "JPY_SESSION_NAME": str(notebook)}
        environment["PYTHONPATH"] = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
        connection = place / "connection.json"
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(connection)]
        client.connect.write_connection_file(str(connection))
        with subprocess.Popen(command, env=environment, cwd=place) as process:
            try:
                talking = client.BlockingKernelClient(connection_file=str(connection))
                talking.load_connection_file()
                talking.start_channels()
                while True:
                    try:
                        talking.wait_for_ready(timeout=60)
                        break
                    except RuntimeError:  # a kernel that starts slowly counts as dead after a second
                        assert process.poll() is None
                printed: list[str] = []
                talking.execute_interactive(
                    self.CELL,
                    timeout=60,
                    output_hook=lambda message: printed.append(str(message["content"].get("text", ""))),
                )
                talking.stop_channels()
            finally:
                process.kill()
        assert json.loads("".join(printed)) == ["notebook", str(notebook), None]


def test_a_test_is_the_file_that_contains_it() -> None:
    program = this_program()
    assert (program.kind, program.file) == ("test", Path(__file__).resolve())


def test_a_working_directory_that_was_deleted(place: Path) -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); gone = sys.argv[1] + '/gone'; os.mkdir(gone); "
        "os.chdir(gone); os.rmdir(gone); from determined.user_code.program import this_program; "
        "print(repr(this_program().label))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout == "'/[-c]'\n"
