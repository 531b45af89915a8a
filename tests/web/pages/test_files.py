"""Files behind the page: a damaged checkpoint, an exported view opened from disk, very long names."""

from __future__ import annotations

import html
import json
import tarfile
import urllib.request
from pathlib import Path

import playwright.sync_api as api
import pytest
from playwright.sync_api import expect

from determined.built_page import STATIC
from determined.web.export import canonical
from tests.helpers.searches import Search
from tests.web.pages.browser import Ui, Visitor, running_ui, visiting, why_not
from tests.web.pages.test_pages import VIEWS
from tests.web.test_export import answers_in

# What an address can contain in addition: brushes, a selection, a zoom, a marked moment, filters of a log.
CHOICES = [
    "/experiments/1?brush=lr:0~0.5;metric:0~0.9&sel=1-9&trial=12",
    "/experiments/1?axis=time&x=0.1~3.5",
    "/experiments/1?tab=log&brush=lr:0~0.5",
    "/compare?trials=1-3,17&left=2&right=1",
    "/trials/3?archived=1",
    "/trials/3?tab=log&find=loss&level=INFO",
    "/trials/3?at=1700000000.5",
    "/trials/3?tab=profile&x=0.5~2",
]
LINEAR = Path(__file__).parents[2] / "experiment" / "models" / "linear"


def test_verify_finds_one_changed_byte_in_a_checkpoint_of_torch(tmp_path: Path, browser: api.Browser) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    config = {
        "name": "torch",
        "entrypoint": "model_def:LinearTrial",
        "hyperparameters": {"lr": 0.01, "global_batch_size": 16},
        "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 4}},
    }
    search = Search(tmp_path / "home", LINEAR, config, slots=1, environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    search.activate(search.create())
    with search.opened() as store:
        (checkpoint,) = [found for found in store.checkpoints(1) if found.state == "ACTIVE"]
    largest = max(checkpoint.resources, key=lambda name: checkpoint.resources[name])
    (file,) = search.home.rglob(f"{checkpoint.checkpoint_id}/{largest}")
    with running_ui(search) as ui, visiting(browser, ui) as visitor:
        page = visitor.open("/trials/1?tab=checkpoints")
        page.get_by_role("button", name="Verify now").click()
        expect(page.locator("main")).to_contain_text("Undamaged")
        expect(page.locator("main")).to_contain_text("equal to the hashes")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        page.get_by_role("button", name="Verify now").click()
        expect(page.locator("[role=alert]")).to_contain_text("This checkpoint is damaged")
        expect(page.locator("[role=alert]")).to_contain_text(f"the content of {largest} was changed")


def test_verify_says_that_a_checkpoint_without_hashes_is_compared_by_sizes(runs: Search, visitor: Visitor) -> None:
    page = visitor.open("/trials/17?tab=checkpoints")
    with runs.opened() as store:
        checkpoint = next(found for found in store.checkpoints(17) if found.state == "ACTIVE")
    row = page.locator("tbody tr", has_text=checkpoint.checkpoint_id[:8])
    row.get_by_role("button", name="Verify now").click()
    expect(page.locator("main")).to_contain_text("the contents were not compared")
    (state,) = runs.home.rglob(f"{checkpoint.checkpoint_id}/state.json")
    content = state.read_bytes()
    try:
        state.write_bytes(content[:-1])
        row.get_by_role("button", name="Verify now").click()
        expect(page.locator("[role=alert]")).to_contain_text("damaged")
        expect(page.locator("[role=alert]")).to_contain_text("state.json")
    finally:
        state.write_bytes(content)


def test_the_metadata_of_a_checkpoint_and_the_archive_of_the_code(
    runs: Search, visitor: Visitor, tmp_path: Path
) -> None:
    page = visitor.open("/trials/17?tab=checkpoints")
    page.get_by_role("button", name="Contents").first.click()
    expect(page.locator("td .sheet tr", has_text="steps_completed")).to_contain_text("64")
    expect(page.locator("td .sheet tr", has_text="state.json")).to_be_visible()
    page = visitor.open("/experiments/2?tab=code")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the code").click()
    assert download.value.suggested_filename == "experiment_2_model_def.tgz"
    download.value.save_as(tmp_path / "code.tgz")
    with tarfile.open(tmp_path / "code.tgz") as archive:
        assert {"train.py", "notes.txt"} <= {Path(name).name for name in archive.getnames()}


def test_an_exported_view_opens_from_disk_without_a_server(
    visitor: Visitor, browser: api.Browser, ui: Ui, tmp_path: Path
) -> None:
    page = visitor.open("/experiments/1")
    expect(page.locator(".u-over")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    file = tmp_path / "view.html"
    download.value.save_as(file)
    context = browser.new_context()
    try:
        said: list[str] = []
        opened = context.new_page()
        opened.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on(
            "request", lambda request: None if request.url.startswith(("file:", "blob:")) else said.append(request.url)
        )
        opened.goto(file.as_uri())
        expect(opened.locator(".u-over")).to_be_visible()
        expect(opened.locator("h1")).to_have_text("adaptive <b>search</b>")
        expect(opened.locator(".table tbody tr").first).to_be_visible()
        expect(opened.locator(".live")).to_contain_text("exported")
        assert opened.title() != "hacked"
        assert said == []
    finally:
        context.close()


def test_an_export_without_a_browser_has_all_that_the_page_asks_for(visitor: Visitor, ui: Ui) -> None:
    """`det ui export` knows the requests of each view from `export_requests.py`; the page makes them itself."""
    missing = {}
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url.removeprefix(ui.url)))
    for address in (*VIEWS.values(), *CHOICES):
        asked.clear()
        visitor.open(address)
        visitor.page.wait_for_load_state("networkidle")
        wanted = {canonical(path) for path in asked if path.startswith("/api/") and "/api/changes" not in path}
        request = urllib.request.Request(
            f"{ui.url}/api/export",
            json.dumps({"address": address}).encode(),
            {"Authorization": f"Bearer {ui.token}", "Content-Type": "application/json"},
        )
        exported = answers_in(urllib.request.urlopen(request).read().decode())
        if left := wanted - exported.keys():
            missing[address] = left
    assert missing == {}


def test_labels_notes_and_deletion_ask_what_they_need(visitor: Visitor) -> None:
    page = visitor.open("/experiments/2?tab=notes")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Notes").fill("first line\n<script>document.title='hacked'</script>")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".panel .wrap")).to_contain_text("<script>")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Add a label").click()
    page.get_by_role("dialog").get_by_label("Label").fill("<u>new</u>")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".title")).to_contain_text("<u>new</u>")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("What goes")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.locator("h1")).to_have_text("a grid")
    assert page.title() != "hacked"


def test_the_page_says_that_the_server_has_ended(runs: Search, browser: api.Browser) -> None:
    with running_ui(runs) as ui:
        with visiting(browser, ui) as visitor:
            page = visitor.open("/runs")
            rows = page.locator(".table tbody tr").count()
            visitor.expected = ("ERR_CONNECTION_REFUSED", "Failed to load resource")
            ui.process.terminate()
            ui.process.wait(30)
            expect(page.locator("[role=alert]").first).to_contain_text("does not answer", timeout=30_000)
            assert page.locator(".table tbody tr").count() == rows


def test_a_chart_draws_in_a_sandboxed_frame_without_a_server(browser: api.Browser, ui: Ui, tmp_path: Path) -> None:
    """As the output of a notebook: the script, the styles and the curves in one frame without an origin."""
    path = "/api/curves?axis=batches&key=validation%2Floss&points=1000&trials=17%2C18"
    request = urllib.request.Request(ui.url + path, headers={"Authorization": f"Bearer {ui.token}"})
    with urllib.request.urlopen(request) as response:
        answers = {path: json.load(response)}
    document = {"address": "/chart?trials=17,18", "created": 0, "answers": answers}
    script, styles = ((STATIC / name).read_text() for name in ("chart.js", "page.css"))
    data = json.dumps(document).replace("<", "\\u003c")
    inside = (
        f'<!doctype html><style>{styles}</style><div id="app"></div>'
        f'<script type="application/json" id="det-export">{data}</script><script>{script}</script>'
    )
    file = tmp_path / "notebook.html"
    file.write_text(
        f'<iframe sandbox="allow-scripts" width="900" height="600" srcdoc="{html.escape(inside)}"></iframe>'
    )
    context = browser.new_context()
    try:
        said: list[str] = []
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(file.as_uri())
        frame = page.frame_locator("iframe")
        expect(frame.locator(".u-over")).to_be_visible()
        expect(frame.locator(".legend")).to_contain_text("trial 18")
        expect(frame.locator(".chart-foot")).to_contain_text("all drawn")
        assert said == []
    finally:
        context.close()
