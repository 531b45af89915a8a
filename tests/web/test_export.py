"""A view as one HTML file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from determined import built_page
from determined.cli.main import main
from determined.config.experiment import load_experiment
from determined.experiment.creation.create import create_experiment
from determined.store.store import Store
from determined.web.export import canonical
from tests.web.site import Site
from tests.web.test_routes import HOSTILE, filled


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A built page in the form of the real one."""
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
