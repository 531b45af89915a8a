"""The contract of engines for jobs on a cluster of one node with two slots."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.engines.base import Event, Exited, Interpreter, Job
from determined.engines.command import parse_entrypoint
from determined.engines.ray.engine import RayEngine
from determined.errors import EngineError
from tests.engines.contract import Bench, EngineContract
from tests.ray.cluster import RayCluster
from tests.ray.engines import opened, wait_for_slots


class TestRayEngine(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, closed: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayEngine]:
        with opened(closed, tmp_path_factory.mktemp("engine")) as engine:
            wait_for_slots(engine, 2)
            assert closed.head.files()
            yield engine
        assert closed.head.files() == []

    def test_cpu_time_is_counted(self, bench: Bench) -> None:
        """Nodes report the CPU time of running jobs every two seconds."""
        text = "import time\nwhile time.process_time() < {}: pass\nprint('ready', flush=True)\n"
        bench.write("program.py", text.format(0.4) + "time.sleep(100)")
        key = bench.start("python3 program.py")
        bench.line("ready")
        while bench.engine.cpu_seconds(key) < 0.3:
            assert not any(isinstance(event, Exited) for event in bench.engine.events(0.1))
        bench.engine.kill(key)
        assert bench.finish(key).exited.cpu_seconds >= 0.3
        assert bench.engine.cpu_seconds(key) == 0

    def test_a_job_that_writes_too_fast_has_to_wait(self, bench: Bench) -> None:
        """It waits for the runner as well, but its node keeps some thousand lines ready."""
        bench.write("program.py", "for number in range(300_000): print(number)\nopen('done', 'w').close()")
        key = bench.start("python3 program.py")
        seen: list[Event] = []
        while len(seen) < 150_000:
            assert not (bench.directory / "done").exists()
            seen += bench.engine.events(10.0)
        assert len(bench.finish(key, seen).output) == 300_000

    def test_a_directory_is_taken_from_where_the_runner_is(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not on a node, where the directories of the runner do not exist: the setup of an experiment creates them
        there.
        """
        monkeypatch.chdir(bench.directory.parent)
        bench.started.append("here")
        bench.engine.start(Job("here", parse_entrypoint("pwd"), {}, Path(bench.directory.name), 1))
        done = bench.finish("here")
        assert done.exited.lost
        assert "the job could not be started" in done.errors

    def test_the_environment_that_the_engine_sets_for_a_job(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The environment is that of the node without Ray's own variables, and not that of the runner."""
        monkeypatch.setenv("OF_THE_RUNNER", "1")
        bench.write(
            "program.py",
            """
            import json, os
            names = ["DET_ALLOCATION_ID", "DET_CONTAINER_SLOT_COUNTS", "HOME", "A", "OF_THE_RUNNER", "RANK"]
            print(json.dumps([os.environ.get(name) for name in names]))
            print([name for name in os.environ if name.startswith("RAY_") or name == "PYTHONBREAKPOINT"])
            """,
        )
        key = bench.start("python3 program.py", A="1")
        shown, of_ray = bench.finish(key).output
        assert json.loads(shown) == [key, "[1]", os.environ["HOME"], "1", None, None]
        assert of_ray == "[]"

    def test_another_interpreter_with_its_variables(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each node runs the startup hook itself, so that an interpreter of the runner's machine is not used."""
        bench.engine.use(Interpreter("/missing/python", {"WORD": "said"}))
        assert bench.script("import os\nprint(os.environ.get('WORD'))").output == ["None"]

    def test_slots_are_assigned_and_released(self, bench: Bench) -> None:
        """Slots have no numbers here, and what is missing is a grant of Ray."""
        assert (bench.engine.slots, bench.engine.free_slots()) == (2, 2)
        bench.write("program.py", "import time\ntime.sleep(1000)")
        keys = [bench.start("python3 program.py") for _ in range(2)]
        assert bench.engine.free_slots() == 0
        with pytest.raises(EngineError, match="Ray has granted none that is free"):
            bench.start("python3 program.py")
        bench.engine.kill(keys[1])
        bench.finish(keys[1])
        assert bench.engine.free_slots() == 1
        bench.engine.kill(keys[0])
        bench.finish(keys[0])
        assert bench.engine.free_slots() == 2

    def test_what_cannot_be_started(self, bench: Bench) -> None:
        """`start` does not wait for the node: a failure comes as an event."""
        command = parse_entrypoint("sleep 1000")
        bench.engine.start(Job("nowhere", command, {}, bench.directory / "missing", 1))
        done = bench.finish("nowhere")
        assert done.exited.lost
        assert "does not exist" in done.errors
        bench.engine.start(Job("twice", command, {}, bench.directory, 1))
        with pytest.raises(EngineError, match="already running"):
            bench.engine.start(Job("twice", command, {}, bench.directory, 1))
        bench.engine.kill("twice")
        bench.finish("twice")
        assert bench.engine.free_slots() == 2

    def test_a_job_on_two_slots(self, bench: Bench) -> None:
        """All jobs of an engine have the same size, so that this one needs another engine: `TestTwoSlots`."""


class TestTwoSlots:
    """The contract for a job on two slots of a node."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayEngine]:
        with opened(cluster, tmp_path_factory.mktemp("engine"), 2, single_node=True) as engine:
            wait_for_slots(engine, 2)
            yield engine

    def test_a_job_on_two_slots(self, engine: RayEngine, tmp_path: Path) -> None:
        EngineContract().test_a_job_on_two_slots(Bench(engine, tmp_path))
