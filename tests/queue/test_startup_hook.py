"""Startup hooks of experiments in the queue."""

from __future__ import annotations

from tests.queue.conftest import QueuedSearch


def test_trials_have_its_variables_and_a_failing_one_is_not_tried_again(here: QueuedSearch) -> None:
    here.model_dir = here.home / "model"
    here.model_dir.mkdir()
    hook = here.model_dir / "startup-hook.sh"
    hook.write_text(f"echo run >> {here.home}/ran\nexport WORD=exported\n")
    fields = {"entrypoint": "echo word is $WORD", "hyperparameters": {}, "searcher": {"name": "single", "metric": "x"}}
    here.wait(here.detach(**fields))
    with here.opened() as store:
        (trial,) = store.experiments.trials(1)
        assert [line.text for line in store.logs(trial.id)] == ["word is exported"]
    here.config = {**here.config, **fields}
    experiment = here.create()
    (copied,) = (
        path for path in here.home.glob("determined/experiments/*/code") if path.parent.name == key(here, experiment)
    )
    (copied / "startup-hook.sh").write_text(f"echo run >> {here.home}/ran\necho the server is away; exit 3\n")
    here.det("experiment", "activate", str(experiment), "--detach")
    here.wait_for(lambda store: store.experiments.get(experiment).reason)
    here.wait_for(lambda store: store.queue.find(experiment) is None)
    with here.opened() as store:
        row = store.experiments.get(experiment)
        assert (row.state, row.reason) == ("PAUSED", "startup-hook.sh failed with exit code 3: the server is away")
        assert [trial.runs for trial in store.experiments.trials(experiment)] == [0]
    assert (here.home / "ran").read_text() == "run\n" * 3


def key(here: QueuedSearch, experiment_id: int) -> str:
    with here.opened() as store:
        return store.experiments.get(experiment_id).key
