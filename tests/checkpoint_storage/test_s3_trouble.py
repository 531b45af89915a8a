"""Servers that refuse, are unavailable, or fail half-way: one clear error, no partial files, no secret shown."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import core, paths, pytorch
from determined.checkpoint_storage import CheckpointStorage, build_from_argument
from determined.errors import CheckpointNotFound, InvalidCheckpointException, NoDirectStorageAccess, StorageAccessError
from tests.helpers.ranks import free_port
from tests.helpers.records import opened
from tests.helpers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, Wire
from tests.helpers.trials import HPARAMS, LineTrial

MEGABYTE = 1 << 20
WRONG_KEY = "wRoNg-distinctive-4Kd"
STEPS = {"steps_completed": 1}


@pytest.fixture(autouse=True)
def no_secret_is_told(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that no message that is logged in these tests contains a key."""
    with caplog.at_level(logging.DEBUG):
        yield
    for secret in (ACCESS_KEY, SECRET_KEY, WRONG_KEY):
        assert secret not in caplog.text


def failure_of(action: Callable[[], Any]) -> Exception:
    """Return the error, after a search for keys in everything that is attached to it."""
    with pytest.raises(Exception) as caught:
        action()
    told = "".join(traceback.format_exception(caught.value, chain=True))
    told += _everything_attached_to(caught.value)
    for secret in (ACCESS_KEY, SECRET_KEY, WRONG_KEY):
        assert secret not in told
    return caught.value


def _everything_attached_to(error: BaseException | None) -> str:
    if error is None:
        return ""
    attached = _everything_attached_to(error.__cause__) + _everything_attached_to(error.__context__)
    return f"{error!r}{error}{error.args}{vars(error)}" + attached


def left_here() -> list[str]:
    root = paths.data_dir() / "cloud"
    return os.listdir(root) if root.exists() else []


def stage(storage: CheckpointStorage, size: int) -> None:
    path = storage.stage("one")
    (path / "metadata.json").write_text("{}")
    for name in ("a", "b", "c"):
        (path / name).write_bytes(os.urandom(size // 3))


def open_it(storage: CheckpointStorage) -> None:
    with storage.open("one"):
        raise AssertionError("the block must not be entered")


def test_a_wrong_key_is_access_denied(server: S3Server) -> None:
    for field in ("secret_key", "access_key"):
        storage = build_from_argument(server.config(**{field: WRONG_KEY}))
        for action in (storage.probe, lambda s=storage: s.metadata("one"), lambda s=storage: s.resources("one")):
            error = failure_of(action)
            assert isinstance(error, StorageAccessError)
            assert isinstance(error, NoDirectStorageAccess)
            assert isinstance(error, PermissionError)
            assert f"s3://checkpoints at http://{server.address} refused access" in str(error)
        assert WRONG_KEY not in repr(storage)


def test_the_server_says_why(server: S3Server) -> None:
    error = failure_of(build_from_argument(server.config(secret_key=WRONG_KEY)).probe)
    assert "SignatureDoesNotMatch" in str(error)
    error = failure_of(build_from_argument(server.config(access_key=WRONG_KEY)).probe)
    assert "InvalidAccessKeyId" in str(error)


def test_a_missing_bucket_is_named(server: S3Server) -> None:
    storage = build_from_argument(server.config(bucket="no-such-bucket"))
    for action in (storage.probe, lambda: storage.resources("one")):
        error = failure_of(action)
        assert isinstance(error, OSError)
        assert "s3://no-such-bucket at" in str(error)
        assert "does not exist" in str(error)
        assert "NoSuchBucket" in str(error)


def test_a_server_that_is_not_there() -> None:
    config = {"type": "s3", "bucket": "checkpoints", "access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    place = f"http://127.0.0.1:{free_port()}"
    error = failure_of(build_from_argument({**config, "endpoint_url": place}).probe)
    assert isinstance(error, ConnectionRefusedError)
    assert f"{place} cannot be reached: connection refused" in str(error)
    error = failure_of(build_from_argument({**config, "endpoint_url": "http://no-such-host.invalid"}).probe)
    assert "no-such-host.invalid cannot be reached: its name is not known" in str(error)


def test_a_run_is_refused_before_the_first_batch(server: S3Server) -> None:
    error = failure_of(lambda: core.init(checkpoint_storage=server.config(secret_key=WRONG_KEY)))
    assert isinstance(error, StorageAccessError)
    error = failure_of(lambda: core.init(checkpoint_storage=server.config(bucket="no-such-bucket")))
    assert "no-such-bucket" in str(error)


@pytest.fixture
def wire(own_server: S3Server) -> Iterator[Callable[..., Wire]]:
    wires: list[Wire] = []

    def make(then: Callable[[], None] = own_server.kill, **limits: int) -> Wire:
        wires.append(Wire(own_server, then=then, **limits))
        return wires[-1]

    yield make
    for each in wires:
        each.close()


@pytest.mark.parametrize("size", [3 * MEGABYTE, 40 * MEGABYTE], ids=["whole files", "parts"])
def test_a_server_that_dies_during_an_upload(
    own_server: S3Server, wire: Callable[..., Wire], size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cut = wire(up=size // 2)
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / name).write_bytes(os.urandom(size // 3))
    config = own_server.config(endpoint_url=cut.endpoint_url)
    with core.init(checkpoint_storage=config, tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        error = failure_of(lambda: context.checkpoint.upload(source, STEPS))
    assert cut.cut.is_set()
    assert isinstance(error, OSError)
    assert "was not saved: the checkpoint storage s3://checkpoints at" in str(error)
    assert "cannot be reached" in str(error)
    storage_id = str(error).partition("checkpoint ")[2].partition(" ")[0]
    assert f"the partial upload of checkpoint {storage_id} could not be deleted" in caplog.text
    assert left_here() == []
    assert sorted(path.name for path in source.iterdir()) == ["a", "b", "c"]
    # Its remains are not visible, and are removed a day later.
    own_server.start()
    storage = build_from_argument(own_server.config())
    with pytest.raises(CheckpointNotFound):
        storage.resources(storage_id)
    own_server.kill()
    note = own_server.bucket / ".unfinished" / storage_id
    os.utime(note, (0, note.stat().st_mtime - 25 * 3600))
    own_server.start()
    build_from_argument(own_server.config()).probe()
    assert own_server.objects() == []


UPLOADER = """
import json, sys
from determined import core
with core.init(checkpoint_storage=json.loads(sys.argv[1]), tensorboard_mode=core.TensorboardMode.MANUAL) as context:
    context.checkpoint.upload(sys.argv[2], {"steps_completed": 1})
"""


def test_a_process_that_is_killed_during_an_upload(
    own_server: S3Server, wire: Callable[..., Wire], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / str(number)).write_bytes(os.urandom(MEGABYTE))
    uploader: list[subprocess.Popen[bytes]] = []
    cut = wire(up=15 * MEGABYTE, then=lambda: uploader[0].kill())
    config = json.dumps(own_server.config(endpoint_url=cut.endpoint_url))
    uploader.append(subprocess.Popen([sys.executable, "-c", UPLOADER, config, str(source)]))
    assert uploader[0].wait(60) == -signal.SIGKILL
    (note,) = (own_server.bucket / ".unfinished").iterdir()
    assert (own_server.bucket / note.name).exists()
    assert sorted(left_here()) == [f".owner-{note.name}", f".staging-{note.name}"]
    storage = build_from_argument(own_server.config())
    with pytest.raises(CheckpointNotFound, match="unfinished"):
        storage.resources(note.name)
    own_server.kill()
    os.utime(note, (0, note.stat().st_mtime - 25 * 3600))
    own_server.start()
    build_from_argument(own_server.config()).probe()
    assert own_server.objects() == []
    assert left_here() == []


@pytest.mark.parametrize("size", [3 * MEGABYTE, 40 * MEGABYTE])
def test_a_server_that_dies_during_a_download(
    own_server: S3Server, wire: Callable[..., Wire], size: int, tmp_path: Path
) -> None:
    whole = build_from_argument(own_server.config())
    stage(whole, size)
    whole.commit("one")
    storage = build_from_argument(own_server.config(endpoint_url=wire(down=size // 2).endpoint_url))
    error = failure_of(lambda: open_it(storage))
    assert isinstance(error, OSError)
    assert "cannot be reached" in str(error)
    assert left_here() == []
    own_server.start()
    storage = build_from_argument(own_server.config(endpoint_url=wire(down=size // 2).endpoint_url))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("mine")
    for directory in ("there", "new"):
        failure_of(partial(storage.fetch, "one", tmp_path / directory))
    assert [path.name for path in tmp_path.joinpath("there").iterdir()] == ["mine"]
    assert not (tmp_path / "new").exists()


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """For tests that another thread interrupts: an exception in a callback of the collector is lost.

    hypothesis has such a callback.
    """
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_an_upload_that_is_interrupted_leaves_nothing(
    own_server: S3Server, wire: Callable[..., Wire], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(12):
        (source / str(number)).write_bytes(os.urandom(2 * MEGABYTE))
    interrupted = wire(up=9 * MEGABYTE, then=lambda: os.kill(os.getpid(), signal.SIGINT))
    config = own_server.config(endpoint_url=interrupted.endpoint_url)
    with core.init(checkpoint_storage=config, tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        with pytest.raises(KeyboardInterrupt):
            context.checkpoint.upload(source, STEPS)
    assert own_server.objects() == []
    assert left_here() == []


class Interrupted(LineTrial):
    """Is interrupted in its second batch; the upload of its weights takes a while."""

    def make_model(self) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(1, MEGABYTE), torch.nn.Linear(MEGABYTE, 1))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return super().train_batch(batch, epoch_idx, batch_idx)


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_second_interrupt_during_an_upload_stops_training_at_once(
    own_server: S3Server, wire: Callable[..., Wire]
) -> None:
    slow = wire(up=2 * MEGABYTE, then=lambda: os.kill(os.getpid(), signal.SIGINT))
    config = own_server.config(endpoint_url=slow.endpoint_url)
    with pytest.raises(SystemExit) as ended:
        with pytorch.init(hparams=HPARAMS, checkpoint_storage=config) as context:
            pytorch.Trainer(Interrupted(context), context).fit(max_length=pytorch.Epoch(9), checkpoint_policy="none")
    assert ended.value.code == 130
    assert own_server.objects() == []
    with opened() as store:
        assert store.experiments.list()[0].state == "PAUSED"
        assert store.checkpoints(1) == []


def test_a_full_disk_on_this_machine_is_reported_with_the_systems_message(server: S3Server, tmp_path: Path) -> None:
    storage = build_from_argument(server.config())
    stage(storage, MEGABYTE)
    storage.commit("one")
    (tmp_path / "xdg-data" / "determined" / "cloud").rmdir()
    (tmp_path / "xdg-data" / "determined" / "cloud").touch()
    error = failure_of(lambda: open_it(storage))
    assert isinstance(error, OSError)
    assert error.errno == errno.EEXIST


@pytest.mark.parametrize("damage", ["shortened", "changed", "emptied", "removed", "no manifest"])
def test_a_damaged_object_is_named(server: S3Server, damage: str) -> None:
    with core.init(checkpoint_storage=server.config(), tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        use = context.checkpoint
        with use.store_path(STEPS, with_manifest=True) as (path, storage_id):
            (path / "state").write_bytes(b"x" * 100)
            (path / "other").write_bytes(b"y" * 100)
        bucket = use._storage._bucket  # type: ignore[attr-defined]
        with use.restore_path(storage_id) as opened:
            assert (opened / "state").read_bytes() == b"x" * 100
        contents = {"shortened": b"x" * 99, "changed": b"x" * 99 + b"y", "emptied": b""}
        if damage == "no manifest":
            bucket.put(f"{storage_id}/manifest.json", b"{}")
        elif damage == "removed":
            bucket.delete(f"{storage_id}/state")
        else:
            bucket.put(f"{storage_id}/state", contents[damage])
        named = "manifest.json" if damage == "no manifest" else "state"
        with pytest.raises(InvalidCheckpointException, match=rf"checkpoint {storage_id} is damaged: .*{named}"):
            with use.restore_path(storage_id):
                raise AssertionError("the block must not be entered")
        if damage != "no manifest":  # files that were not requested do no harm
            with use.restore_path(storage_id, selector=lambda name: name == "other") as opened:
                assert sorted(path.name for path in opened.iterdir()) == ["manifest.json", "other"]
    assert left_here() == []
