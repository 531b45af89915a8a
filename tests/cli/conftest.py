"""A store with experiments, and `det` to read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.store.store import Store
from tests.cli.filling import Steps, add_trials, end, end_trial, lead, new_experiment, work
from tests.cli.forking import Forking
from tests.cli.projects import CONFIG, PROGRAM
from tests.cli.searched import Searched, run_search
from tests.helpers.records import opened

WEIRD = "two\nlines \x1b[31mred\x1b]0;title\x07 \u202etxt [bold]😀[/bold] 日本"


@pytest.fixture(autouse=True)
def viewers_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show times in UTC, whatever the time zone of the machine that runs the tests."""
    # With the patch of the test, which may set another zone: two patches would be undone in the wrong order.
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def store() -> Iterator[Store]:
    with opened() as store:
        yield store


@pytest.fixture
def search(store: Store) -> int:
    """Create an ended search: one trial completed, one was stopped early, one failed."""
    experiment_id = new_experiment(store, "search", description="three trials", labels=["a", "b"])
    lease = lead(store, experiment_id)
    first, second, third = add_trials(
        store, lease, [{"lr": 0.1, "net": {"layers": 3}}, {"lr": 0.2, "net": {"layers": 4}}, {"lr": 9.0}]
    )
    work(
        store,
        lease,
        first,
        Steps(
            training=[(4, {"loss": 0.0}), (16, {"loss": 0.5})],
            validation=[(4, {"loss": 0.75}), (16, {"loss": 0.25})],
            saved=[4, 16],
            lines=[(0, "INFO", "INFO: [1] root: hello"), (1, None, "plain"), (0, "ERROR", "ERROR: [1] root: oops")],
        ),
    )
    end_trial(store, lease, first, "COMPLETED")
    work(
        store,
        lease,
        second,
        Steps(
            validation=[(4, {"loss": float("nan"), "accuracy": 0})],
            saved=[4],
            lines=[(0, "WARNING", "WARNING: [2] root: second")],
        ),
    )
    end_trial(store, lease, second, "STOPPED_EARLY")
    work(store, lease, third, Steps())
    end_trial(store, lease, third, "ERROR", restarts=2, reason="exit code 1: no such file")
    end(store, lease, "COMPLETED", progress=1.0)
    return experiment_id


@pytest.fixture
def weird(store: Store) -> int:
    """Create an experiment whose program writes everything that could disturb a terminal."""
    experiment_id = new_experiment(store, WEIRD, description=WEIRD, labels=[WEIRD])
    lease = lead(store, experiment_id)
    (trial_id,) = add_trials(store, lease, [{WEIRD: WEIRD}])
    work(store, lease, trial_id, Steps(training=[(1, {WEIRD: 1.0})], lines=[(0, None, WEIRD.replace("\n", ""))]))
    end_trial(store, lease, trial_id, "ERROR", reason=WEIRD)
    end(store, lease, "ERROR", reason=WEIRD)
    return experiment_id


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of a user: a configuration, and a directory with a program."""
    directory = tmp_path / "project"
    (directory / "model").mkdir(parents=True)
    (directory / "model" / "train.py").write_text(PROGRAM)
    (directory / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    with Forking() as forking:
        yield forking


@pytest.fixture
def filled_store(searched: Searched, tmp_path: Path) -> dict[str, str]:
    """Create a store with a search, a registered model and a project; return values for the arguments of
    `every_command.py`.
    """
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PROGRAM)
    (tmp_path / "config.yaml").write_text(CONFIG)
    registered = searched.checkpoint(1, 8).checkpoint_id
    with opened() as store:
        new_experiment(store, "nobody runs it")
        store.registry.register(store.registry.create_model("digits").id, registered)
    spare = searched.checkpoint(2, 4).checkpoint_id
    ids = {"experiment": "1", "trial": "1", "checkpoint": registered, "spare": spare, "idle": "2", "model": "digits"}
    return {**ids, "config": "config.yaml", "model_dir": "model"}


@pytest.fixture(scope="session")
def search_that_ran(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    return run_search(tmp_path_factory.mktemp("searched"))


@pytest.fixture
def searched(search_that_ran: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searched:
    """Return the search as it ended, without changes of other tests; this test's program uses its data directory."""
    search_that_ran.restore()
    monkeypatch.setenv("XDG_DATA_HOME", str(search_that_ran.home))
    monkeypatch.chdir(tmp_path)
    return search_that_ran
