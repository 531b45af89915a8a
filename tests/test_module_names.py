"""Every module of Determined's releases can be imported here, or its import says what to use instead."""

from __future__ import annotations

import http.server
import importlib
import json
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import determined_common.api.errors  # type: ignore[import-not-found]  # made by a hook when it is imported
import pytest

from determined import errors, util
from determined.common.api import authentication
from determined.common.experimental import Determined
from determined.experimental import client
from determined.horovod import hvd
from tests.helpers.ranks import run_ranks

NAMES = [
    line.split()[0]
    for line in Path(__file__).with_name("module_names.txt").read_text().splitlines()
    if not line.startswith("#")
]
# The names that programs use of the modules that are kept.
KEPT = [
    "determined.util",
    "determined.horovod",
    "determined.common",
    "determined.common.api",
    "determined.common.api.authentication",
    "determined.common.api.errors",
    "determined.common.experimental",
    "determined.common.experimental.experiment",
    "determined_common",
    "determined_common.api",
    "determined_common.api.authentication",
    "determined_common.api.errors",
    "determined_common.experimental",
    "determined_common.experimental.checkpoint",
    "determined.experimental.unmanaged",
    "determined.tensorboard.metric_writers.callback",
]


def test_every_module_works_or_says_what_to_use() -> None:
    program = """
import importlib, json, sys
answers = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
        answers[name] = None
    except ModuleNotFoundError as error:
        answers[name] = str(error)
json.dump(answers, sys.stdout)
"""
    # In a separate process: here modules may have been imported in an order that hides a mistake.
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(NAMES), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, str | None] = json.loads(done.stdout)
    silent = {name: text for name, text in answers.items() if text is not None and "here: " not in text}
    assert silent == {}, "each needs a reason in absent_modules.py"
    assert [name for name in KEPT if answers.get(name) is not None] == []
    short = {name: text for name, text in answers.items() if text and len(text.partition("here: ")[2]) < 20}
    assert short == {}


@pytest.mark.parametrize(
    "statement",
    [
        "from determined import keras",
        "import determined.keras.callbacks",
        "from determined.common import storage",
        "from determined_common.api import request",
        "import determined_common.storage.s3",
        "import determined.deploy.aws.deployment_types.vpc",
    ],
)
def test_the_reason_is_shown_however_a_module_is_imported(statement: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^there is no determined\S+ here: .{20}"):
        exec(statement)


@pytest.mark.parametrize("name", ["determined.nonsense", "determined.pytorch.nonsense", "determined_common.nonsense"])
def test_a_name_that_never_existed_is_python_s_own_error(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^No module named '{name}'$"):
        importlib.import_module(name)


# The former places of the SDK


def test_what_the_sdk_does_not_find_is_caught_by_the_old_name(tmp_path: Path) -> None:
    assert determined_common.api.errors.NotFoundException is errors.NotFoundException
    with Determined(str(tmp_path / "empty.sqlite")) as way_in:
        requests: list[Callable[[], object]] = [
            lambda: way_in.get_experiment(1),
            lambda: way_in.get_trial(1),
            lambda: way_in.get_checkpoint("5a7b1c1e-0000-4000-8000-000000000000"),
            lambda: way_in.get_model("net"),
            lambda: way_in.get_model(7),
        ]
        for ask in requests:
            with pytest.raises(determined_common.api.errors.NotFoundException, match="not found"):
                ask()


def test_the_sdk_under_its_old_places() -> None:
    old: Any = importlib.import_module("determined.common.experimental.experiment")
    assert old.ExperimentState is client.ExperimentState
    with pytest.warns(FutureWarning, match="ExperimentReference is deprecated"):
        assert importlib.import_module("determined_common.experimental").ExperimentReference is client.Experiment
    with pytest.raises(AttributeError, match="no users to administer"):
        old.whoami  # noqa: B018
    names: dict[str, Any] = {}
    exec("from determined.common.experimental import *", names)
    assert names["Determined"] is client.Determined


def test_logging_in_succeeds() -> None:
    authentication.cli_auth = authentication.Authentication("https://a-master", "somebody", "secret", try_reauth=True)
    assert authentication.cli_auth.get_session_user()
    assert authentication.login_with_cache("https://a-master").get_session_token() == ""
    with pytest.raises(AttributeError, match="no attribute 'get': there is no master with a REST interface"):
        importlib.import_module("determined.common.api").get  # noqa: B018


# determined.util


def test_dicts_are_merged_into_a_new_one() -> None:
    base = {"a": {"b": 1, "c": 2}, "d": [1]}
    source = {"a": {"b": 3, "e": {"f": 4}}, "d": [2], "g": None}
    assert util.merge_dicts(base, source) == {"a": {"b": 3, "c": 2, "e": {"f": 4}}, "d": [2], "g": None}
    assert base == {"a": {"b": 1, "c": 2}, "d": [1]}


class Blob:
    """An object of Google's client that fails a few times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def download_as_string(self) -> bytes:
        self.failures -= 1
        if self.failures >= 0:
            raise ConnectionError("cut")
        return b"content"


def test_a_download_is_tried_again() -> None:
    assert util.download_gcs_blob_with_backoff(Blob(2), max_backoff=0) == b"content"
    with pytest.raises(ConnectionError, match="cut"):
        util.download_gcs_blob_with_backoff(Blob(2), n_retries=2, max_backoff=0)
    with pytest.raises(TypeError, match="blob must be"):
        util.download_gcs_blob_with_backoff(3)
    with pytest.raises(ValueError, match="expected gs://bucket/name"):
        util.download_gcs_blob_with_backoff("s3://bucket/name")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = urllib.parse.urlsplit(urllib.parse.unquote(self.path)).path == "/bucket/a/b.txt"
        self.send_response(200 if found else 404)
        for name, value in {
            "Content-Length": "7" if found else "0",
            "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT",
            "ETag": '"1"',
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"content" if found else b"")

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server for the part of Google's protocol that reading an object needs."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        place = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("GOOGLE_BASE_URL", place)
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "a-token")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def test_a_blob_by_its_address(google: None) -> None:
    assert util.download_gcs_blob_with_backoff("gs://bucket/a/b.txt", n_retries=1) == b"content"
    with pytest.raises(FileNotFoundError, match="there is no object gs://bucket/missing"):
        util.download_gcs_blob_with_backoff("gs://bucket/missing", n_retries=1)


# determined.horovod


def test_hvd_alone() -> None:
    import torch

    hvd.init()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size(), hvd.is_initialized()) == (0, 1, 0, 1, True)
    ones = torch.ones(2)
    assert hvd.allreduce(ones, average=False).tolist() == [1.0, 1.0]
    assert hvd.allgather(ones).tolist() == [1.0, 1.0]
    assert hvd.broadcast_object({"a": 1}, root_rank=0) == {"a": 1}
    hvd.require_horovod_type("torch", "it is PyTorch")
    with pytest.raises(ValueError, match="only PyTorch is supported"):
        hvd.require_horovod_type("tensorflow.keras", "it is Keras")
    with pytest.raises(AttributeError, match="keep torch's own optimizer"):
        hvd.DistributedOptimizer  # noqa: B018
    with pytest.raises(ValueError, match="op must be one of Average, Sum"):
        hvd.allreduce(ones, op="Adasum")


def ranks_with_hvd() -> dict[str, Any]:
    import torch

    hvd.init()
    own = torch.full((hvd.rank() + 1,), float(hvd.rank()))
    linear = torch.nn.Linear(2, 1)
    hvd.broadcast_parameters(linear.state_dict(), root_rank=1)
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1 * (hvd.rank() + 1), momentum=0.9)
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    result = {
        "numbers": [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()],
        "average": hvd.allreduce(torch.tensor([1.0 + hvd.rank()])).tolist(),
        "sum": hvd.allreduce(torch.tensor([1 + hvd.rank()]), average=False).tolist(),
        "largest": hvd.allreduce(torch.tensor([1 + hvd.rank()]), op=hvd.Max).tolist(),
        "gathered": hvd.allgather(own).tolist(),
        "objects": hvd.allgather_object({"rank": hvd.rank()}),
        "broadcast": hvd.broadcast(own[:1], root_rank=1).tolist(),
        "weights": linear.weight.tolist(),
        "lr": optimizer.param_groups[0]["lr"],
    }
    hvd.barrier()
    hvd.shutdown()
    return result


def test_hvd_with_two_ranks() -> None:
    first, second = (result.value for result in run_ranks(ranks_with_hvd, n=2))
    assert (first.pop("numbers"), second.pop("numbers")) == ([0, 2, 0, 2, 0, 1], [1, 2, 1, 2, 0, 1])
    assert first == second
    assert first["average"] == [1.5]
    assert (first["sum"], first["largest"]) == ([3], [2])
    assert first["gathered"] == [0.0, 1.0, 1.0]
    assert first["objects"] == [{"rank": 0}, {"rank": 1}]
    assert (first["broadcast"], first["lr"]) == ([1.0], 0.2)
