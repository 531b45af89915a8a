"""Hostile text in every field that a program or a user can write is shown as text, on every page and in exports."""

from __future__ import annotations

import math
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import playwright.sync_api as api
import pytest

from determined.store.process import this_user
from determined.store.substores.queue import NewEntry
from determined.store.substores.registry import Edit
from tests.helpers.searches import Search
from tests.store.rows import metric, start
from tests.web.pages.browser import Ui, running_ui, visiting, why_not
from tests.web.pages.conftest import samples
from tests.web.pages.hostile_model.text import HOSTILE, LONG

MODEL = Path(__file__).parent / "hostile_model"
VIEWS = [
    "/runs",
    "/runs?view=experiments",
    "/runs?sel=1-2",
    "/experiments/1",
    "/experiments/1?tab=hparams",
    "/experiments/1?tab=search",
    "/experiments/1?tab=checkpoints",
    "/experiments/1?tab=code",
    "/experiments/1?tab=code&other=2",
    "/experiments/1?tab=config",
    "/experiments/1?tab=config&config=written",
    "/experiments/1?tab=log",
    "/experiments/1?tab=notes",
    "/failures",
    "/trials/1",
    "/trials/2",
    "/trials/3",
    "/trials/1?tab=hparams",
    "/trials/3?tab=hparams",
    "/trials/1?tab=attempts",
    "/trials/2?tab=attempts",
    "/trials/1?tab=checkpoints",
    "/trials/1?tab=profile",
    "/trials/1?tab=log",
    "/compare?trials=1-3&all=1",
    "/queue",
    "/models",
    "/models/1",
]

WITHOUT_TEXT = ("/trials/1?tab=attempts",)

# What must not be in the page: elements of the hostile text; direction marks that reach beyond what shows them; text
# wider than the window. Without frames or a timer, so that the content policy allows it.
CHECK = """() => {
    const found = [];
    if (document.title === "hacked") found.push("a script was executed");
    const made = document.querySelectorAll("[data-hostile], main script, main img, main iframe, main [onerror]");
    for (const element of made) found.push(`an element: ${element.outerHTML.slice(0, 200)}`);
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (wide > 0) found.push(`${wide} pixels wider than the window`);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        if (!node.data.includes("\\u202e")) continue;
        const parent = node.parentElement;
        const style = getComputedStyle(parent);
        const isolated = ["isolate", "plaintext", "isolate-override"].includes(style.unicodeBidi);
        const alone = style.display !== "inline" && node.nextSibling === null;
        if (!isolated && !alone) found.push(`not isolated: ${parent.outerHTML.slice(0, 300)}`);
    }
    return found;
}"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Create two experiments with hostile text in every field, with one trial each; the second one fails."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("hostile")
    model = home / "model"
    shutil.copytree(MODEL, model)
    (model / "<img src=x onerror=alert(1) data-hostile>\u202e'\".py").write_text(f"{HOSTILE!r}\n# {HOSTILE}\n")
    environment = {"XDG_STATE_HOME": str(home / "state"), "DET_SLOTS": "1"}
    config: dict[str, Any] = {
        "name": HOSTILE,
        "description": LONG,
        "labels": [HOSTILE, "L" * 1000],
        "entrypoint": "python3 train.py",
        "environment": {"environment_variables": [f"TEXT={HOSTILE}"]},
        "data": {HOSTILE: [LONG]},
        "hyperparameters": {
            HOSTILE: LONG,
            "nested": {HOSTILE: {"deep": [1, [2, {"x": HOSTILE}]]}},
            "huge": 10**400,
            "many": list(range(5000)),
            "varies": {"type": "categorical", "vals": [HOSTILE, LONG]},
        },
        "searcher": {"name": "random", "metric": "loss", "max_length": {"batches": 4}, "max_trials": 1},
        "max_restarts": 0,
    }
    search = Search(home / "data", model, config, environment=environment)
    search.activate(search.create())
    search.activate(search.create(), expect=1)  # its only trial fails
    with search.opened() as store:
        store.upkeep.describe(1, notes=LONG)
        store.queue.add(NewEntry(1, socket.gethostname(), this_user()))
        store.queue.add(NewEntry(2, f"host {HOSTILE}", f"user {HOSTILE}"))
        store.write([*samples(store, 1, "cpu", HOSTILE), *samples(store, 1, HOSTILE, LONG)])
        checkpoint = store.checkpoints(1)[0].checkpoint_id
        labels, metadata = [HOSTILE, LONG], {HOSTILE: LONG, "nested": {HOSTILE: [HOSTILE]}}
        made = store.registry.create_model(HOSTILE, description=LONG, labels=labels, metadata=metadata, owner=HOSTILE)
        store.registry.register(made.id, checkpoint)
        edit = Edit(name=LONG, notes=LONG, labels=labels, set_metadata=metadata)
        store.registry.edit_version(made.id, 1, edit)
        # Values that a configuration must not have, but a program can pass.
        odd = {"nan": math.nan, "infinite": [math.inf, -math.inf], "huge": 10**400, HOSTILE: {"a": {"b": [{}]}}}
        run = start(program=f"/home/me/{HOSTILE}.py")
        attempt = store.begin_attempt(run._replace(run=run.run._replace(hparams=odd)))
        store.write([metric(attempt, HOSTILE, step, {LONG: math.nan, "x": 10**400}) for step in range(3)])
    return search


@pytest.fixture(scope="module")
def hostile_ui(hostile: Search) -> Iterator[Ui]:
    with running_ui(hostile) as started:
        yield started


@pytest.mark.parametrize("width", [1280, 375])
def test_hostile_text_is_shown_as_text(width: int, hostile_ui: Ui, browser: api.Browser) -> None:
    found = []
    with visiting(browser, hostile_ui, width=width) as visitor:
        for view in VIEWS:
            page = visitor.open(view)
            alerts = page.locator("[role=alert]").all_inner_texts()
            found += [f"{view}: {problem}" for problem in [*page.evaluate(CHECK), *alerts]]
            if view not in WITHOUT_TEXT and "<script>" not in page.locator("main").inner_text():
                found.append(f"{view}: does not show the text")
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("view", ["/experiments/1", "/trials/2", "/trials/1?tab=log", "/failures", "/models/1"])
def test_hostile_text_in_an_exported_file(view: str, hostile: Search, browser: api.Browser, tmp_path: Path) -> None:
    file = tmp_path / "view.html"
    hostile.det("ui", "export", view, "-o", str(file))
    context = browser.new_context()
    try:
        said: list[str] = []
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector("main h1")
        page.wait_for_selector(".loading", state="detached")
        assert page.evaluate(CHECK) == []
        assert "<script>" in page.locator("main").inner_text()
        assert said == []
    finally:
        context.close()
