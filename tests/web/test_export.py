"""A view as one HTML file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from determined import built_page
from determined.cli.main import main
from determined.config.experiment import load_experiment
from determined.experiment.creation.create import create_experiment
from determined.store.experiment_changes import Change
from determined.store.store import Store
from determined.web.export import canonical
from determined.web.export_brushes import brushed
from tests.store.experiments import begin_managed, held_experiment, new_trial
from tests.store.rows import begin, metric
from tests.web.site import Site
from tests.web.test_routes import HOSTILE, filled


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """Return a minimal page in the form of the real one."""
    directory = tmp_path / "static"
    directory.mkdir()
    (directory / "index.html").write_text(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">\n'
        '<link rel="stylesheet" href="/static/page.css">\n</head>\n<body>\n<div id="app"></div>\n'
        '<script src="/static/page.js"></script>\n</body>\n</html>\n'
    )
    (directory / "page.js").write_text("const odd = '</script>';")
    (directory / "page.css").write_text("body { color: black }")
    return directory


def answers_in(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="det-export">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    content = json.loads(found.group(1))
    assert content.keys() == {"address", "created", "answers"}
    answers: dict[str, object] = content["answers"]
    return answers


def test_the_answers_of_the_given_requests_are_in_the_file(site: Site, store: Store) -> None:
    _, trials = filled(store)
    requests = ["/api/trials?metric=training%2Floss&archived=1", f"/api/trials/{trials[0]}", "/api/changes", "/login"]
    answer = site.ask("POST", "/api/export", site.bearer, json={"address": "/runs", "requests": requests})
    assert answer.headers["content-disposition"] == 'attachment; filename="det-view.html"'
    answers = answers_in(answer.text)
    assert answers.keys() == {"/api/trials?archived=1&metric=training%2Floss", f"/api/trials/{trials[0]}"}
    assert answers[f"/api/trials/{trials[0]}"] == site.get(f"/api/trials/{trials[0]}")


@pytest.mark.parametrize("path", ["/api/experiments/1/code/archive", "/api/trials?metric=\u20ac"])
def test_requests_whose_answers_a_page_cannot_show_are_named(
    site: Site, store: Store, tmp_path: Path, path: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text("pass")
    config = load_experiment({"entrypoint": "python3 train.py", "searcher": {"name": "single", "metric": "loss"}})
    assert create_experiment(config, model, store).experiment_id == 1
    body = {"address": "/runs", "requests": [path]}
    assert path[:12] in site.post("/api/export", body, 409)["error"]


@pytest.mark.parametrize("top", ["abc", "-5", "9" * 5000])
def test_a_number_of_curves_that_is_none_counts_as_missing(site: Site, store: Store, top: str) -> None:
    experiment, _ = filled(store)
    address = f"/experiments/{experiment}"
    answers = answers_in(site.ask("POST", "/api/export", site.bearer, json={"address": address}).text)
    odd = site.ask("POST", "/api/export", site.bearer, json={"address": f"{address}?top={top}"}).text
    assert answers_in(odd).keys() == answers.keys()


def test_nothing_in_the_file_is_loaded_and_nothing_but_the_page_is_executed(site: Site, store: Store) -> None:
    experiment, _ = filled(store)
    page = site.ask("POST", "/api/export", site.bearer, json={"address": f"/experiments/{experiment}"}).text
    assert HOSTILE[0] in json.dumps(answers_in(page), ensure_ascii=False)
    assert HOSTILE[0] not in page
    assert len(re.findall("<script", page)) == 2
    assert not re.findall(r"(?:src|href)=", page.partition('id="det-export"')[0])
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy.group(1).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.group(1)


@pytest.mark.parametrize(
    "view", ["/runs", "/experiments/{e}", "/trials/{t}", "/compare?trials={t},{o}", "/failures", "/queue"]
)
def test_the_requests_of_each_view_are_known(site: Site, store: Store, view: str) -> None:
    experiment, trials = filled(store)
    address = view.format(e=experiment, t=trials[0], o=trials[1])
    page = site.ask("POST", "/api/export", site.bearer, json={"address": address})
    assert page.status_code == 200, page.text
    answers = answers_in(page.text)
    assert answers
    if address.startswith(("/experiments", "/trials", "/compare")):
        assert any(path.startswith("/api/curves?axis=batches&key=") for path in answers)


def requests_in(site: Site, address: str) -> list[str]:
    page = site.ask("POST", "/api/export", site.bearer, json={"address": address})
    assert page.status_code == 200, page.text
    return list(answers_in(page.text))


@pytest.mark.parametrize(
    ("query", "drawn", "logs"),
    [
        ("", [0, 1, 2, 3, 4, 5], ""),
        ("top=2", [4, 5], ""),
        ("sel={0}-{2},{4},999", [0, 1, 2, 4], ""),
        ("top=2&trial={0}", [0, 4, 5], ""),
        ("brush=lr:0~0.5", [0, 1, 2], "&trials={0}-{2}"),
        ("brush=lr:0~0.5;opt:0.9~1;other:0~0.1", [0, 2], "&trials={0}%2C{2}"),
        ("brush=metric:0~0.5", [3, 4, 5], "&trials={3}-{5}"),
        ("brush=lr:0~0.5&sel={1}-{5}", [1, 2], "&trials={0}-{2}"),
        ("brush=%2525zz:0~0.5;lr:1;:0~1;other:0~0.1", [0, 1, 2, 3, 4, 5], ""),
        ("brush=lr:0.41~0.42&trial={5}", [5], None),
    ],
)
def test_an_export_has_the_curves_and_logs_of_the_selected_and_brushed_trials(
    site: Site, store: Store, query: str, drawn: list[int], logs: str | None
) -> None:
    lease = held_experiment(store)
    new = [new_trial(number, hparams={"lr": number / 5, "opt": "ba"[number % 2]}) for number in range(6)]
    trials = store.experiments.commit(lease, Change(new_trials=tuple(new)))
    for number, trial_id in enumerate(trials):
        store.write([metric(begin_managed(store, lease, trial_id), "validation", 1, {"error": 1.0 - number / 10})])
    asked = requests_in(site, f"/experiments/{lease.experiment_id}?{query.format(*trials)}")
    listed = "%2C".join(str(trials[number]) for number in drawn)
    curves = [path for path in asked if path.startswith("/api/curves?")]
    assert curves == [f"/api/curves?axis=batches&key=validation%2Ferror&points=1000&trials={listed}"]
    expected = [] if logs is None else [f"/api/logs?experiment={lease.experiment_id}&limit=500{logs.format(*trials)}"]
    assert [path for path in asked if path.startswith("/api/logs?")] == expected


def test_an_export_has_the_zoomed_filtered_and_marked_view(site: Site, store: Store) -> None:
    experiment, (trial, *_) = filled(store)
    asked = requests_in(site, f"/trials/{trial}?archived=1&at=3001.5&axis=time&x=0.5~1e%2B3")
    start = "/api/curves?archived=1&axis=time"
    rest = f"key=training%2Floss&points=400&to=1e%2B3&trials={trial}"
    assert f"{start}&from=0.5&{rest}" in asked
    assert f"{start}&{rest.replace('&to=1e%2B3', '')}" in asked
    sample = f"/api/trials/{trial}/profile?key=system%252Fgpu%2Futil&points=400"
    assert {sample, sample.replace("?", "?from=0.5&") + "&to=1e%2B3"} <= set(asked)
    assert f"/api/trials/{trial}/moment?axis=time&key=training%2Floss&time=3001.5" in asked
    filters = "tab=log&find=a.b&regex=1&level=INFO&rank=0&stream=stdout&at=3001.5"
    for place, view in (("trial", f"/trials/{trial}"), ("experiment", f"/experiments/{experiment}")):
        number = view.rpartition("/")[2]
        asked = requests_in(site, f"{view}?{filters}")
        query = f"level=INFO&limit=500&rank=0&regex=1&stream=stdout&text=a.b&{place}={number}"
        pairs = sorted([*query.split("&"), "around_time=3001.5"])
        assert {f"/api/logs?{'&'.join(pairs)}", canonical(f"/api/logs?limit=500&{place}={number}")} <= set(asked)


def test_the_metrics_that_a_view_finds_are_in_the_file(site: Site, store: Store) -> None:
    attempt = begin(store)
    store.write([metric(attempt, "training", 1, {f"metric{number:03}": 1.0 for number in range(150)})])
    keys = [path for path in requests_in(site, f"/trials/{attempt.trial_id}?find=RIC14") if "key=" in path]
    assert all(any(f"metric{number}&" in path for path in keys) for number in range(140, 150))


_NODE = shutil.which("node")
_PAGE = Path(__file__).resolve().parents[2] / "page"
_LEFT = """
import { brushed, hparamAxis, metricAxis, parseBrushes, shownHparams, varying } from "./axes.mjs";
import { readFileSync } from "node:fs";

const left = ({ rows, searched, brush }) => {
  const space = new Map(searched.map((one) => [one.name, one]));
  const brushes = parseBrushes(brush);
  const shown = shownHparams(varying(rows), null, brushes);
  const axes = [...shown.map((name) => hparamAxis(name, rows, space.get(name))), metricAxis(rows)];
  const only = brushed(rows, axes, brushes);
  return only && [...only];
};
console.log(JSON.stringify(JSON.parse(readFileSync(0)).map(left)));
"""


@pytest.mark.skipif(
    _NODE is None or not (_PAGE / "node_modules").is_dir(),
    reason="Node or page/node_modules is missing: install Node and run `make page`",
)
def test_brushes_leave_the_trials_that_the_page_shows(tmp_path: Path) -> None:
    assert _NODE is not None
    random = Random(1)
    odd = ["NaN", "Infinity", None, True, 12345.678, 1e-7, 3e9, 2.0, 2, "x", "\U0001f600", "\uff00", [1, 2], 1e300]
    cases: list[dict[str, Any]] = []
    for _ in range(400):
        chosen: dict[str, Callable[[], Any]] = {
            "lr": lambda: 10 ** random.uniform(-4, 0),
            "n": lambda: random.randint(1, 5),
            "opt": lambda: random.choice(["sgd", "adam", "lion"]),
            "any": lambda: random.choice(odd),
            "narrow": lambda: random.choice([0.3, 0.1 + 0.2]),
        }
        # The page shows the first ten; a brush on another one counts as well.
        chosen |= {f"a{number}": chosen["n"] for number in range(random.choice([0, 12]))}
        rows = [
            {
                "id": number,
                "best": random.choice([None, "NaN", random.uniform(-1, 1)]),
                "hparams": {name: make() for name, make in chosen.items() if random.random() < 0.9},
            }
            for number in range(random.randint(1, 12))
        ]
        space = [
            {"name": "lr", "kind": "log", "low": 1e-4, "high": 1.0},
            {"name": "n", "kind": "int", "low": 1, "high": 5},
            {"name": "opt", "kind": "categorical", "low": None, "high": None},
        ]
        low, high = sorted([random.choice([0.0, 0.25, 0.5, 1.0, random.random()]) for _ in range(2)])
        names = random.sample([*chosen, "metric", "%"], 2)
        brush = ";".join(f"{quote(name) if name != '%' else name}:{low:.3f}~{high:.3f}" for name in names)
        cases.append({"rows": rows, "searched": random.sample(space, random.randint(0, 3)), "brush": brush})
    build = "{entryPoints: ['src/charts/axes.ts'], bundle: true, format: 'esm', outfile: process.argv[1]}"
    words = ["-e", f"require('esbuild').buildSync({build})", str(tmp_path / "axes.mjs")]
    subprocess.run([_NODE, *words], cwd=_PAGE, check=True)
    (tmp_path / "left.mjs").write_text(_LEFT)
    done = subprocess.run([_NODE, "left.mjs"], cwd=tmp_path, input=json.dumps(cases).encode(), stdout=-1, check=True)
    found = [brushed(case["rows"], case["brush"], case["searched"]) for case in cases]
    own = [None if left is None else sorted(left) for left in found]
    expected = json.loads(done.stdout)
    assert [pair for pair in zip(cases, own, expected, strict=True) if pair[1] != pair[2]] == []
    assert None in own
    assert len({len(left) for left in own if left is not None}) > 5


def test_the_command_writes_a_file(
    static: Path, store: Store, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    monkeypatch.setenv("DET_STORE", place)
    monkeypatch.setattr(built_page, "STATIC", static)
    file = tmp_path / "view.html"
    words = ["ui", "export", "/runs", "-o", str(file)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "/api/trials" in answers_in(file.read_text())
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 1
    assert "exists" in again.output


def test_requests_have_the_keys_under_which_the_page_looks() -> None:
    assert canonical("/api/logs?trial=1&limit=500") == "/api/logs?limit=500&trial=1"
    assert canonical("/api/x?b=~%20*-._/é&a=1") == "/api/x?a=1&b=%7E+*-._%2F%C3%A9"
    assert canonical("/api/queue") == "/api/queue"
