"""`det experiment compare`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.experiment_records import Lease
from determined.store.process import this_process
from determined.store.rows import (
    AttemptStart,
    EndRow,
    MetricRow,
    NewRun,
)
from determined.store.store import Store
from tests.cli.conftest import WEIRD
from tests.cli.det_command import det, det_csv, det_json, det_ok, det_on_terminal, rows_of
from tests.cli.filling import Steps, add_trials, end, end_trial, lead, new_experiment, work
from tests.store.experiments import begin_managed


@pytest.fixture
def other(store: Store) -> int:
    """Create another search over the same metric, better than the first."""
    config = {
        "searcher": {"name": "grid", "metric": "loss"},
        "resources": {"slots_per_trial": 2},
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}, "net": {"layers": 3}},
        "environment": {"environment_variables": ["API_TOKEN=hunter2"]},
    }
    experiment_id = new_experiment(store, "other", config=config)
    lease = lead(store, experiment_id)
    (trial,) = add_trials(store, lease, [{"lr": 0.3, "net": {"layers": 3, "act": "relu"}}])
    work(store, lease, trial, Steps(validation=[(4, {"loss": 0.5}), (8, {"loss": 0.125}), (12, {"loss": 0.25})]))
    end_trial(store, lease, trial, "COMPLETED")
    end(store, lease, "COMPLETED", progress=1.0)
    return experiment_id


def test_a_value_stands_beside_the_range_that_others_searched(store: Store, other: int) -> None:
    config = {"searcher": {"name": "random", "metric": "loss"}, "hyperparameters": {"lr": 0.5, "batch": 8}}
    fixed = new_experiment(store, "fixed", config=config)
    differing = {row["name"]: row["values"] for row in det_json("e", "compare", f"{fixed},{other}")["config"]}
    assert differing["hyperparameters.lr"] == [0.5, {"type": "double", "minval": 0.1, "maxval": 1.0}]
    assert "hyperparameters.batch" not in differing


def standalone_run(store: Store, metrics: dict[str, Any]) -> int:
    run = NewRun("/home/me/train.py", "runs/1", {"lr": 0.7}, {}, 1_790_000_000.0)
    begun = store.begin_attempt(AttemptStart("by hand", run, this_process(), 1_790_000_000.0))
    row = MetricRow(begun.trial_id, begun.number, 0, "validation", 5, json.dumps(metrics), 1_790_000_001.0)
    store.write([row, EndRow(begun.trial_id, begun.number, "completed", 1_790_000_090.0, 61.0)])
    return begun.experiment_id


def test_durations_of_a_paused_search_and_of_a_trial_on_another_node(store: Store, other: int) -> None:
    search = new_experiment(store, "mine")
    lease = lead(store, search)
    (trial,) = add_trials(store, lease, [{}])
    begin_managed(store, lease, trial)  # its process is on another host
    running, _ = det_json("e", "compare", f"{search},{other}")["contenders"]
    assert running["seconds"] > 0
    assert running["trial_seconds"] > 0
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="PAUSED")))
    paused, _ = det_json("e", "compare", f"{search},{other}")["contenders"]
    assert paused["seconds"] is None
    results = {row[""]: row for row in rows_of(parts(det_ok("e", "compare", f"{search},{other}"))["Results"])}
    assert results["Duration"][f"Experiment {search}"] == ""


def test_values_that_differ_after_the_digits_that_a_table_shows(store: Store) -> None:
    ids = []
    for lr in (0.12345678, 0.12345679):
        ids.append(new_experiment(store, "mine"))
        lease = lead(store, ids[-1])
        (trial,) = add_trials(store, lease, [{"lr": lr, "layers": 3 if len(ids) == 1 else 3.0}])
        work(store, lease, trial, Steps(validation=[(4, {"loss": 0.5})]))
    compared = det_json("e", "compare", *map(str, ids))["hyperparameters"]
    assert {row["name"]: row["differs"] for row in compared} == {"lr": True, "layers": False}


def parts(text: str) -> dict[str, str]:
    """Return the parts by their titles, without the lines between them."""
    return dict(part.split("\n", 1) for part in text.rstrip("\n").split("\n\n") if "\n" in part)


def test_two_searches_side_by_side(search: int, other: int) -> None:
    shown = det_ok("e", "compare", f"{search},{other}")
    assert det_ok("e", "compare", str(search), str(other)) == shown
    found = parts(shown)
    assert list(found) == [
        "Results",
        "Hyperparameters",
        "Where the configurations differ",
        "validation loss (smaller is better)",
    ]
    one, two = f"Experiment {search}", f"Experiment {other}"
    results = {row[""]: (row[one], row[two]) for row in rows_of(found["Results"])}
    assert results["Best"] == ("0.25", "0.125")
    assert results["Best at batch"] == ("16", "8")
    assert results["Batches"] == ("16", "12")
    assert results["Metric"] == ("validation loss (smaller is better)",) * 2
    assert results["Duration"] == ("3m 20s", "3m 20s")
    assert results["Started"][0] == "2026-09-21 14:13:20+0000"
    assert f"The best is {two}." in shown
    assert rows_of(found["Hyperparameters"]) == [
        {"Differs": "*", "Hyperparameter": "lr", one: "0.1", two: "0.3"},
        {"Differs": "", "Hyperparameter": "net.layers", one: "3", two: "3"},
        {"Differs": "*", "Hyperparameter": "net.act", one: "", two: "relu"},
    ]
    differing = {
        row["Configuration"]: (row[one], row[two]) for row in rows_of(found["Where the configurations differ"])
    }
    assert differing["searcher.name"] == ("random", "grid")
    assert differing["resources.slots_per_trial"] == ("", "2")
    assert differing["hyperparameters.lr"] == ("", '{"type": "double", "minval": 0.1, "maxval": 1.0}')
    assert "searcher.metric" not in differing
    assert "hunter2" not in shown
    chart = found["validation loss (smaller is better)"].splitlines()
    assert chart[-1] == f"A {one}  B {two}"
    assert chart[0].startswith(" 0.75 |A")
    assert max(map(len, chart)) == 80
    assert "\x1b" not in shown


def test_for_programs(search: int, other: int) -> None:
    plain = det_json("e", "compare", f"{search},{other}")
    first, second = plain["contenders"]
    assert (first["experiment_id"], first["best"], first["best_at"]) == (search, 0.25, 16)
    assert second["curve"] == [[4, 0.5], [8, 0.125], [12, 0.25]]
    assert (second["metric"], second["group"], second["smaller_is_better"]) == ("loss", "validation", True)
    assert plain["best"] == 1
    assert plain["hyperparameters"][1] == {"name": "net.layers", "differs": False, "values": [3, 3]}
    assert {line["name"]: line["values"] for line in plain["config"]}["searcher.name"] == ["random", "grid"]

    rows = {(row["Part"], row["Name"]): row for row in det_csv("e", "compare", f"{search},{other}")}
    assert rows["hyperparameter", "lr"] == {
        "Part": "hyperparameter",
        "Name": "lr",
        "Differs": "True",
        f"Experiment {search}": "0.1",
        f"Experiment {other}": "0.3",
    }
    assert rows["result", "Best"][f"Experiment {other}"] == "0.125"


def test_trials_of_one_search(store: Store, search: int) -> None:
    first, second, third = (trial.id for trial in store.experiments.trials(search))
    plain = det_json("e", "compare", "--trials", f"{first},{second}", "--trials", str(third))
    assert [one["trial_id"] for one in plain["contenders"]] == [first, second, third]
    assert {one["state"] for one in plain["contenders"]} == {"COMPLETED"}
    assert [one["trial_state"] for one in plain["contenders"]] == ["COMPLETED", "STOPPED_EARLY", "ERROR"]
    assert [one["best"] for one in plain["contenders"]] == [0.25, None, None]  # NaN is never the best
    assert plain["contenders"][1]["curve"] == [[4, "NaN"]]
    assert plain["config"] == []
    shown = det_ok("e", "compare", "--trials", f"{first},{second},{third}")
    assert f"A Trial {first}  B Trial {second} (1 of 1 values cannot be drawn)" in shown
    assert "The best is" not in shown


def test_other_metrics(search: int, other: int) -> None:
    both = [f"{search},{other}"]
    training = det_json("e", "compare", *both, "--group", "training")["contenders"]
    assert [one["curve"] for one in training] == [[[4, 0.0], [16, 0.5]], []]
    unknown = det("e", "compare", *both, "--metric", "f1")
    assert unknown.exit_code == 1
    assert "none of the compared trials reported 'f1'; they reported training loss, validation loss" in unknown.stderr
    nothing = det("e", "compare", *both, "--group", "inference")
    assert "none of the compared trials reported its searcher metric in the group 'inference'; they" in nothing.stderr


def test_standalone_runs_and_what_is_measured_otherwise(store: Store, search: int) -> None:
    standalone = standalone_run(store, {"loss": 0.0625, "zeal": 1.0})
    plain = det_json("e", "compare", f"{search},{standalone}")
    assert plain["contenders"][1]["name"] == "train.py"
    assert plain["contenders"][1]["best"] == 0.0625
    assert plain["contenders"][1]["trial_seconds"] == 61.0
    assert plain["best"] == 1  # by the metric of the search, in its direction
    alone = det_json("e", "compare", str(standalone))["contenders"][0]
    assert (alone["metric"], alone["smaller_is_better"], alone["best"]) == ("loss", None, 0.0625)
    zeal = det_json("e", "compare", str(standalone), "--metric", "zeal", "--smaller-is-better", "false")["contenders"][
        0
    ]
    assert (zeal["metric"], zeal["smaller_is_better"]) == ("zeal", False)

    larger = new_experiment(store, metric="loss", smaller_is_better=False)
    lease = lead(store, larger)
    (trial,) = add_trials(store, lease, [{}])
    work(store, lease, trial, Steps(validation=[(1, {"loss": 2.0}), (2, {"loss": 3.0})]))
    plain = det_json("e", "compare", f"{search},{larger}")
    assert [one["best"] for one in plain["contenders"]] == [0.25, 3.0]
    assert plain["best"] is None
    titles = parts(det_ok("e", "compare", f"{search},{larger}"))
    assert "validation loss (smaller is better)" in titles
    assert "validation loss (larger is better)" in titles


def test_a_spike_among_many_points_is_drawn(store: Store) -> None:
    (lease, trial) = _long_trial(store)
    values = {step: 1000.0 if step == 1234 else 1.0 + step / 10_000 for step in range(1, 4001)}
    values[77] = float("nan")
    work(store, lease, trial, Steps(validation=[(step, {"loss": value}) for step, value in values.items()]))
    chart = det_ok("e", "compare", str(lease.experiment_id)).split("validation loss")[-1]
    assert "1000 |" in chart
    assert "(1 of 4000 values cannot be drawn)" in chart


def _long_trial(store: Store) -> tuple[Lease, int]:
    lease = lead(store, new_experiment(store, metric="loss"))
    (trial,) = add_trials(store, lease, [{}])
    return lease, trial


def test_what_has_not_begun_yet(store: Store) -> None:
    empty = new_experiment(store, paused=True)
    (one,) = det_json("e", "compare", str(empty))["contenders"]
    assert (one["trial_id"], one["best"], one["curve"]) == (None, None, [])
    assert "PAUSED" in det_ok("e", "compare", str(empty))


def test_usage(search: int) -> None:
    assert det("e", "compare").exit_code == 2
    assert det("e", "compare", "1,x").exit_code == 2
    assert det("e", "compare", ",".join(map(str, range(1, 40)))).exit_code == 2
    missing = det("e", "compare", f"{search},99")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr == "Experiment 99 not found.\n"


def test_on_a_terminal_curves_are_coloured_and_fit(search: int, other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    shown = det_on_terminal("e", "compare", f"{search},{other}", columns=70).decode()
    chart = shown[shown.index("validation loss (smaller is better)\r\n") :]
    assert "\x1b[36m" in chart
    assert "\x1b[33m" in chart
    assert re.search("[\u2801-\u28ff]", chart)
    plain = re.sub("\x1b\\[[0-9;]*m", "", chart)
    assert max(len(line) for line in plain.splitlines()) == 70
    monkeypatch.setenv("NO_COLOR", "1")
    without = det_on_terminal("e", "compare", f"{search},{other}", columns=70).decode()
    assert "\x1b" not in without
    assert " |A" in without


def test_what_programs_wrote_is_text(weird: int, search: int) -> None:
    shown = det_ok("e", "compare", f"{weird},{search}", "--metric", WEIRD)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown)


def test_defaults_are_no_differences_to_a_standalone_run(store: Store) -> None:
    """The configuration of a search contains all defaults, that of a standalone run only what its program sets."""
    from determined.config.experiment import load_experiment

    given = {
        "name": "search",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "random", "metric": "loss", "max_trials": 3},
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "max_restarts": 2,
    }
    loaded = load_experiment(given)
    searched = new_experiment(store, config=loaded.config.plain(), original=json.dumps(given))
    lease = lead(store, searched)
    (trial,) = add_trials(store, lease, [{"lr": 0.3}])
    work(store, lease, trial, Steps(validation=[(4, {"loss": 0.5})]))
    alone = standalone_run(store, {"loss": 0.25})
    shown = det_ok("e", "compare", f"{alone},{searched}")
    assert shown.splitlines()[2] == "Results"
    rows = {row["Configuration"] for row in rows_of(parts(shown)["Where the configurations differ"])}
    assert {"max_restarts", "searcher.max_trials", "searcher.name", "entrypoint", "hyperparameters.lr"} <= rows
    assert len(rows) <= 8, rows
    assert len(det_json("e", "compare", f"{alone},{searched}")["config"]) > 20  # output for programs omits nothing


@pytest.mark.parametrize("options", [(), ("--detach",), ("--share",), ("--max-trials", "3")])
def test_a_standalone_run_cannot_be_activated(store: Store, options: tuple[str, ...]) -> None:
    """It has no searcher, from which the number of its slots could be read: it is refused before that."""
    alone = standalone_run(store, {"loss": 0.25})
    refused = det("e", "activate", str(alone), *options)
    assert refused.exit_code == 1
    reason = "it is a standalone run of /home/me/train.py: start the program again"
    assert refused.stderr == f"Cannot activate experiment {alone}: {reason}\n"
